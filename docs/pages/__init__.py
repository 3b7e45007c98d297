"""The pages of docs/ that follow from the code, one module each: functions that return Markdown."""
