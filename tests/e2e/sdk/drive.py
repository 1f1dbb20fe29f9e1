"""Asks once for a stream and once for a whole message through the proxy; prints both as the client read them."""

import json
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="sk-ant-mine", max_retries=0)
ask = {
    "model": "claude-opus-4-7",
    "max_tokens": 1000,
    "tools": [{"name": name, "input_schema": {"type": "object"}} for name in ("Read", "mcp__claude_ai_gmail_send")],
    "messages": [{"role": "user", "content": "go"}],
}
with client.messages.stream(**ask) as stream:
    events = [event.type for event in stream]
    streamed = stream.get_final_message()
whole = client.messages.create(**ask)
print(json.dumps({"events": events, "streamed": streamed.to_dict(), "whole": whole.to_dict()}, default=str))
