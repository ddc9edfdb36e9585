// Requests to the server of the page.

/** Ask the server; an answer that is an error becomes an Error with its sentence. */
export async function ask(what, body, options = {}) {
  const isFile = body instanceof File;
  const request = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
    body: isFile ? body : JSON.stringify(body),
  };
  let reply;
  try {
    reply = await fetch(`/api/${what}`, { ...request, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer: is `egt app` still running?");
  }
  const found = await reply.json();
  if (found.error) throw new Error(found.error);
  return found;
}
