// Asks once for a stream and once for a whole message through the proxy; prints both as the client read them.
const Anthropic = require('@anthropic-ai/sdk');

const ask = {
  model: 'claude-opus-4-7',
  max_tokens: 1000,
  tools: ['Read', 'mcp__claude_ai_gmail_send'].map((name) => ({ name, input_schema: { type: 'object' } })),
  messages: [{ role: 'user', content: 'go' }],
};

(async () => {
  const client = new (Anthropic.default ?? Anthropic)({ baseURL: process.argv[2], apiKey: 'sk-ant-mine', maxRetries: 0 });
  const stream = client.messages.stream(ask);
  const events = [];
  for await (const event of stream) events.push(event.type);
  const streamed = await stream.finalMessage();
  const whole = await client.messages.create(ask);
  console.log(JSON.stringify({ events, streamed, whole }));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
