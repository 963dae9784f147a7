"""A client of Busyhour's HTTP interface; one file, which needs nothing but Python 3.9 or later.

    from busyhour_client import Busyhour

    server = Busyhour("http://127.0.0.1:8080", token="bh_...")
    server.put_account("alice", password="something long", hints=["100"])
    for device in server.devices(search="alice"):
        print(device["aor"], device["state"])

/api/v1/ of a server lists what there is; `Busyhour.request` asks for anything.
"""
import json
import urllib.error
import urllib.parse
import urllib.request

__all__ = ["Busyhour", "Problem"]


class Problem(Exception):
    """The server has refused a request (RFC 9457)."""

    def __init__(self, status, detail, field=None):
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field


class Busyhour:
    """A server. Changing something needs a token of scope `write`; reading from another machine needs one of scope `read`."""

    def __init__(self, address="http://127.0.0.1:8080", token=None, timeout=30):
        self.address = address.rstrip("/")
        self.token = token
        self.timeout = timeout
        self._known = {}

    def request(self, method, path, body=None, **query):
        """The answer to a request below /api/v1, or None if it has no body.

        What was read before is not sent again if it has not changed (ETag).
        """
        query = {name: value for name, value in query.items() if value is not None}
        url = f"{self.address}/api/v1{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        tag, before = self._known.get(url, (None, None))
        if method == "GET" and tag:
            headers["If-None-Match"] = tag
        asked = urllib.request.Request(url, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=self.timeout) as answer:
                text = answer.read()
                told = json.loads(text) if text else None
                if method == "GET" and answer.headers.get("ETag"):
                    self._remember(url, answer.headers["ETag"], told)
                return told
        except urllib.error.HTTPError as error:
            if error.code == 304:
                return before
            raise _problem(error) from None

    def _remember(self, url, tag, told):
        if len(self._known) >= 64:
            self._known.pop(next(iter(self._known)))
        self._known[url] = (tag, told)

    def pages(self, path, name, **query):
        """Each entry of a list that has pages."""
        after = None
        while True:
            page = self.request("GET", path, after=after, **query)
            yield from page[name]
            after = page["next"]
            if after is None:
                return

    def health(self):
        """How the server is: `status`, and `findings` with advice."""
        return self.request("GET", "/health")

    def stats(self):
        return self.request("GET", "/stats")

    def devices(self, search=None, state=None, transport=None, sort=None):
        """Each device: registered ones, and accounts that are not."""
        return self.pages("/devices", "devices", search=search, state=state, transport=transport, sort=sort, limit=1000)

    def unregister(self, aor, contact=None):
        """Ends the contacts of an address of record, or one of them; gives their number."""
        return self.request("DELETE", f"/bindings/{_part(aor)}", contact=contact)["removed"]

    def accounts(self):
        return self.pages("/accounts", "accounts")

    def account(self, user):
        return self.request("GET", f"/accounts/{_part(user)}")

    def put_account(self, user, **fields):
        """Stores an account: password, mailbox, hints, aliases, max_contacts, watchers, iax2, disabled."""
        return self.request("PUT", f"/accounts/{_part(user)}", fields)

    def disable_account(self, user, disabled=True):
        """Refuses the devices of an account, or takes them again; everything else of it stays."""
        return self.request("PATCH", f"/accounts/{_part(user)}", {"disabled": disabled})

    def new_password(self, user, password=None):
        """Gives an account a new password, which the server makes unless it is given."""
        told = self.request("POST", f"/accounts/{_part(user)}/password", {} if password is None else {"password": password})
        return password if told["password"] is None else told["password"]

    def remove_account(self, user):
        self.request("DELETE", f"/accounts/{_part(user)}")

    def hints(self):
        return self.pages("/hints", "hints")

    def put_hint(self, extension, devices):
        return self.request("PUT", f"/hints/{_part(extension)}", {"devices": list(devices)})

    def put_mailbox(self, name, new=0, old=0):
        """Sets the voice messages of a mailbox, which lights the lamps of its telephones."""
        return self.request("PUT", f"/mailboxes/{_part(name)}", {"voice": {"new": new, "old": old}})

    def calls(self):
        return self.request("GET", "/calls")["calls"]

    def call_records(self, user=None, outcome=None, since=None, until=None):
        """Each record, the last one first. Times: RFC 3339, or seconds since 1970."""
        query = {"user": user, "outcome": outcome, "from": since, "until": until}
        return self.pages("/call-records", "call_records", **query)

    def reload(self):
        """Reads the configuration again; `needs_restart` names what could not change."""
        return self.request("POST", "/reload")

    def changes(self, kind=None, user=None, snapshot=False):
        """Each event of /changes, as it comes: (name, data)."""
        query = {"kind": kind, "user": user, "snapshot": "true" if snapshot else None}
        query = {name: value for name, value in query.items() if value is not None}
        url = f"{self.address}/api/v1/changes?{urllib.parse.urlencode(query)}"
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers))
        except urllib.error.HTTPError as error:
            raise _problem(error) from None
        with answer:
            name, data = "message", ""
            for line in answer:
                line = line.decode().rstrip("\r\n")
                if line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    data += line[5:].lstrip()
                elif not line and data:
                    yield name, json.loads(data)
                    name, data = "message", ""


def _part(name):
    return urllib.parse.quote(name, safe="")


def _problem(error):
    text = error.read().decode(errors="replace")
    try:
        told = json.loads(text)
        return Problem(error.code, told.get("detail", text), told.get("field"))
    except ValueError:
        return Problem(error.code, text.strip() or error.reason)
