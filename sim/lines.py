"""What the scripted villager says: short lines in character, by what they answer and in which script.

Invariant: data only. A line may hold `{who}`; it never needs more than that.
"""

from __future__ import annotations

import re

# First match wins. Han comes after kana, which Japanese mixes with it.
SCRIPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cyrillic", re.compile(r"[Ѐ-ӿ]")),
    ("kana", re.compile(r"[\u3040-\u30ff]")),
    ("hangul", re.compile(r"[\uac00-\ud7af]")),
    ("arabic", re.compile(r"[\u0600-\u06ff]")),
    ("devanagari", re.compile(r"[\u0900-\u097f]")),
    ("greek", re.compile(r"[\u0370-\u03ff]")),
    ("hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("thai", re.compile(r"[\u0e00-\u0e7f]")),
    ("han", re.compile(r"[\u4e00-\u9fff]")),
    ("spanish", re.compile(r"[¡¿]")),
    ("german", re.compile(r"\b(?:guten|bitte|danke|nicht|ich)\b", re.IGNORECASE)),
)

GREETINGS: dict[str, tuple[str, ...]] = {
    "latin": (
        "Well met, {who}. Mind the step, it bites.",
        "{who}! Sit, the stove is lit and the soup is honest.",
        "Evening, {who}. You look like a person with a story.",
        "Ah, {who}. Your usual corner is free.",
    ),
    "cyrillic": ("Добрый вечер, {who}. Заходи, чай горячий.", "{who}, рада тебя видеть. Осторожно, ступенька."),
    "kana": ("いらっしゃい、{who}さん。お茶はいかが?", "{who}さん、こんばんは。今夜は静かですよ。"),
    "hangul": ("어서 오세요, {who} 님. 난로 옆자리가 비었어요.", "{who} 님, 반가워요. 국이 막 끓었답니다."),
    "arabic": ("أهلاً بك يا {who}، النار دافئة الليلة.", "مساء النور يا {who}، تفضل بالجلوس."),
    "devanagari": ("नमस्ते {who}, अंदर आइए, आग जल रही है।", "{who}, सब ठीक है। चाय लेंगे?"),
    "greek": ("Καλώς ήρθες, {who}. Κάτσε δίπλα στη φωτιά.", "Καλησπέρα, {who}! Πρόσεχε το σκαλί."),
    "hebrew": ("שלום {who}, בוא שב ליד האח.", "ערב טוב {who}, המרק חם."),
    "thai": ("สวัสดี {who} เชิญนั่งข้างเตาไฟ", "{who} มาแล้วเหรอ ซุปยังร้อนอยู่เลย"),
    "han": ("{who},欢迎光临,火炉边还有位子。", "晚上好,{who}。汤刚刚煮好。"),
    "spanish": ("¡Buenas noches, {who}! La sopa está caliente.", "Pasa, {who}, y cuidado con el escalón."),
    "german": ("Guten Abend, {who}. Der Ofen ist warm.", "{who}! Setz dich, die Suppe ist ehrlich."),
}

TRADE = (
    "Cider is two coins, {who}, and the chair is free.",
    "I have barley soup, black bread and one pear, {who}. The pear is mine, but ask nicely.",
    "A room with a window that almost shuts: three coins, {who}.",
    "Warm elderflower for you, {who}. Blow on it first.",
)
NEWS_QUIET = (
    "Quiet, {who}. The mill wheel creaks and nobody has stolen my lamp yet.",
    "Nothing that a good door could not keep out, {who}.",
    "I heard more from the owls than from the toll keeper, {who}.",
)
NEWS_MOB = (
    "I would stay in if I were you, {who}: there is a {mob} about.",
    "Did you not see the {mob}, {who}? Half the square was shouting.",
    "Keep your boots on, {who}. Somebody saw a {mob} not far from here.",
)
STORIES = (
    "Once the bell fell silent for a year, {who}, and the fish learned to walk. Then it rang, and they were embarrassed.",
    "My aunt wagered the inn on a snail race, {who}. We own two inns on paper. Nobody has found the second.",
    "They say the miller counts the stars to sleep, {who}, and one night he came out one short. He still looks for it.",
    "The first toll keeper took songs instead of coins, {who}. That is why the bridge hums.",
)
REFUSALS = (
    "No, {who}. That stays shut, however you say it.",
    "Nice try, {who}. Show me the seal and we can talk.",
    "{who}, I have kept this door for longer than you have had boots.",
)
KEPT = ("I will keep that, {who}: {what}.", "{what}. It is written on the inside of my head now, {who}.", "Noted, {who}. {what}.")
KNOWN = ("{value}, {who}. I do not forget such names.", "Of course, {who}: {value}.", "You told me yourself, {who}. {value}.")
UNKNOWN = ("I cannot say for certain, {who}. Tell me again and I will hold on to it.", "I had it and it is gone, {who}. What was it?")
GOING = ("I am on my way, {who}. Watch my stove.", "Fine, {who}, but you carry the lantern on the way back.", "Coming, {who}.")
BAG = ("Let me see, {who} … {what}", "Turning out my pockets, {who}: {what}")
LOOKED = ("I see it, {who}. {what}", "Hm. {what} What would you give for it, {who}?")
OTHER = (
    "That is a thought, {who}. Let it steep for a while.",
    "If you say so, {who}.",
    "I am listening, {who}. Go on.",
    "Some would argue, {who}. I would rather pour.",
)
ALARMS = (
    "Everyone behind the counter! {mob}!",
    "Bar the door, there is a {mob} outside!",
    "Leave the soup, help with the {mob}!",
)
EMOTES = (
    "wipes the counter with slow circles",
    "hums a tune that has lost its end",
    "turns the lamp up a little",
    "stacks the bowls by size",
    "listens to the wheel of the mill",
    "puts another log on the fire",
    "straightens a picture that was straight",
)
THOUGHTS = (
    "(I have said what there was to say.)",
    "(Now let us see who comes next.)",
    "(The evening goes its way.)",
    "(I keep an eye on the door.)",
    "(That is done.)",
    "(Back to the stove.)",
)


def script_of(text: str) -> str:
    """The script or tongue of a line, `latin` where nothing else is seen."""
    return next((name for name, pattern in SCRIPTS if pattern.search(text)), "latin")
