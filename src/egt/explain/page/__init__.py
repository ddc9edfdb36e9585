"""A trained model as a page in the browser: `session` answers, `server` guards, `static` shows."""
