"""A small agent as users write them: the official client, a tool, a loop. It knows nothing of us."""

import json

from openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    }
]


def main() -> None:
    client = OpenAI(api_key="none", max_retries=0)
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You are a careful assistant. " * 20},
    ]
    for question in ("What is 17 plus 25?", "And if you add 8 more?", "Say it in words."):
        messages.append({"role": "user", "content": question})
        answer = client.chat.completions.create(
            model="any", messages=messages, tools=TOOLS, temperature=0, seed=42, max_tokens=24
        )
        message = answer.choices[0].message
        messages.append({"role": "assistant", "content": message.content or ""})
        for call in message.tool_calls or []:
            given = json.loads(call.function.arguments)
            messages.append({"role": "user", "content": f"add gives {sum(given.values())}"})
    print(len(messages))


if __name__ == "__main__":
    main()
