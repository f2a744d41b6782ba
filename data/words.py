"""The sentences that tickets are put together from.

`make_tickets.py` fills the braces from one set of fields a ticket: `item` (what the
ticket is about), `other` (another thing), `writer`, `colleague`, `kin`, `day`,
`month`, `years` and `order`. No thing begins with a vowel: "a {other}" has to read
well. Changing a line here changes the data; run the three commands of the card after.
"""

from __future__ import annotations

ITEMS = (
    *("desk lamp", "kettle", "camp chair", "backpack", "bike helmet", "coffee grinder"),
    *("keyboard", "rain jacket", "bookshelf", "toaster", "pair of boots", "monitor"),
    *("water bottle", "suitcase", "garden hose", "tent", "blender", "pillow"),
    *("router", "winter coat", "drill", "camera bag"),
)
WRITERS = ("Mara", "Jonas", "Priya", "Tom", "Aiko", "Lena")
COLLEAGUES = ("Samuel", "Nadia", "Oscar", "Ines", "Viktor", "Ruth")
KIN = ("sister", "father", "cousin", "neighbour", "daughter", "uncle")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = ("January", "March", "April", "June", "September", "October", "November")

# Requests that tell of something gone wrong. With a near deadline they are urgent.
PROBLEMS: dict[str, tuple[str, ...]] = {
    "late": (
        "My {item} has still not arrived.",
        "I am still waiting for the {item} I ordered.",
        "The {item} should have been here on {day} and never came.",
        "Where is the {item} that you shipped?",
        "The tracking page for my {item} has not moved for days.",
    ),
    "broken": (
        "The {item} arrived broken.",
        "When I opened the box the {item} was cracked.",
        "My new {item} is damaged on one side.",
        "There is a dent in the {item} you delivered.",
        "The {item} came out of its packaging in pieces.",
    ),
    "wrong": (
        "You sent me a {other} instead of the {item}.",
        "I ordered a {item} but the box held a {other}.",
        "This is not the {item} I chose in the shop.",
        "The wrong {item} was in the parcel.",
        "The {item} in the box has not the colour shown on the page.",
    ),
    "address": (
        "Please send the {item} to another address.",
        "I moved, so the {item} must go to my new flat.",
        "The delivery address for the {item} is wrong.",
        "Can the {item} be dropped at my office instead?",
        "I gave the old street for the {item} by accident.",
    ),
    "refund": (
        "I returned the {item} and have not got my money back.",
        "The refund for the {item} is missing.",
        "When will you pay back what I spent on the {item}?",
        "The {item} reached your warehouse and yet no refund was made.",
        "My bank shows no credit for the returned {item}.",
    ),
    "double": (
        "I was charged twice for the {item}.",
        "My card shows two payments for one {item}.",
        "The price of the {item} was taken from my account two times.",
        "You billed the {item} double.",
        "There are two identical debits for the {item}.",
    ),
}

# Mere questions. A deadline does not make them urgent.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "cancel": (
        "Please cancel my order of the {item}.",
        "I no longer want the {item}, can the order be stopped?",
        "Kindly call off the {item} I ordered by mistake.",
        "I would like to withdraw from buying the {item}.",
        "Take the {item} out of my order before it ships.",
    ),
    "invoice": (
        "I need an invoice for the {item}.",
        "Could you mail me the bill for the {item}?",
        "The receipt of the {item} shows no tax number.",
        "Please send a copy of the invoice of my {item}.",
        "Our bookkeeping asks for the paper on the {item}.",
    ),
    "coupon": (
        "The discount code does not work for the {item}.",
        "My voucher was refused when I bought the {item}.",
        "The {item} should be cheaper with the coupon.",
        "Why is the code not accepted for the {item}?",
        "The promised discount on the {item} is not in my basket.",
    ),
    "warranty": (
        "The {item} stopped working after a few weeks.",
        "Does the guarantee cover the {item}?",
        "My {item} gave up and I want it repaired.",
        "How long is the warranty on the {item}?",
        "The {item} does not do its work any more, is a repair free?",
    ),
    "stock": (
        "When will the {item} be back in stock?",
        "Is the {item} going to be available again?",
        "The {item} is sold out, do you expect more?",
        "Can I reserve the {item} for the next delivery?",
        "Please tell me once the {item} can be ordered.",
    ),
    "howto": (
        "How do I look after the {item}?",
        "I lost the manual of the {item}.",
        "Is there a guide for the {item}?",
        "The steps for the {item} are not clear to me.",
        "Where can I download the instructions for the {item}?",
    ),
}

SUBJECTS: dict[str, tuple[str, ...]] = {
    "late": ("Where is my {item}", "Parcel missing"),
    "broken": ("Damaged {item}", "Broken on arrival"),
    "wrong": ("Wrong item", "Not what I ordered"),
    "address": ("Other delivery address", "New address"),
    "refund": ("Refund missing", "Money back for the {item}"),
    "double": ("Charged twice", "Two payments"),
    "cancel": ("Cancel my order", "Order by mistake"),
    "invoice": ("Invoice please", "Bill for the {item}"),
    "coupon": ("Discount code", "Voucher refused"),
    "warranty": ("Guarantee", "Repair of the {item}"),
    "stock": ("When back in stock", "Sold out: {item}"),
    "howto": ("Manual of the {item}", "Question on its use"),
}
VAGUE_SUBJECTS = (
    *("Order {order}", "Question", "Help", "My order", "Message from {writer}"),
    *("Hello", "Follow-up", "About the {item}"),
)
MARKS = ("URGENT: ", "Urgent! ", "Important: ")

SOON = (
    "I leave tonight and need it before that.",
    "It has to be solved today.",
    "The event starts tomorrow morning.",
    "By this evening it will be too late.",
    "We open in a few hours and cannot start without it.",
    "I need an answer within the hour.",
)
LATER = (
    "There is no hurry at all.",
    "Next month is early enough.",
    "Take your time, I am only asking.",
    "Whenever you find a quiet moment is fine.",
    "An answer before {month} would do.",
    "It can wait until after my holiday.",
)
DANGER = (
    "Sparks came out of it and the table is burnt.",
    "My {kin} cut a hand on it.",
    "It smells of smoke.",
    "Somebody else seems to use my account right now.",
    "My {kin} got an electric shock from it.",
    "My password was changed and it was not me.",
)
SETTLED = (
    "Meanwhile it has been solved, so you can close this ticket.",
    "Please ignore my earlier message, all is well now.",
    "In the end a friend had the answer, sorry for the noise.",
    "Your colleague {colleague} has already fixed it for me.",
    "It is all right again since this morning, I only wanted to tell you.",
)

# None of the sentences below bears on the label.
AGAIN = (
    "This is the third time I write.",
    "Nobody has answered my last two messages.",
    "I have been on hold for an hour.",
    "Your chat closed on me again.",
    "I wrote about it on {day} and got no reply.",
    "My earlier ticket is still open.",
)
DECOYS = (
    "I know that you must be busy!",
    "I was told to mark this as urgent, though I do not see why.",
    "Sorry to bother you!!!",
    "Yesterday it looked serious, today I am relaxed about it.",
    "I am really disappointed!",
    "Your page says that urgent cases are answered today, is that so?",
    "I use things like that every day.",
    "The last ticket was an emergency.",
)
CONTEXT = (
    "I have been a customer of yours for {years} years.",
    "The order number is {order}.",
    "I ordered it on {day} together with a {other}.",
    "I paid by card.",
    "I paid by bank transfer.",
    "It was meant as a present for my {kin}.",
    "I found your shop through a friend.",
    "I bought a {other} from you in {month} and was happy with it.",
    "I attached two photos.",
    "My account is under the name {writer}.",
    "The parcel was left with someone next door.",
    "Last {month} everything went smoothly.",
    "Your colleague {colleague} was very friendly on the phone.",
    "I read the help page and could not find this case.",
    "I am writing from my phone, so please excuse the typing.",
)
GREETINGS = (
    *("Hello,", "Hi there,", "Good morning,", "Dear support team,", "Hello again,"),
    *("Hi,", "Good evening,", "To whom it may concern,"),
)
CLOSINGS = (
    *("Thank you.", "Thanks a lot!", "Kind regards, {writer}", "Best, {writer}"),
    *("Many thanks in advance, {writer}", "{writer}", "Have a nice day."),
    "Looking forward to your reply.",
)
