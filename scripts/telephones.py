"""Telephones for scripts that need a busy server: they register, watch, publish their lines and call, over UDP with passwords.

Just enough SIP for that; the tests of the server use real ones.
"""
import hashlib
import re
import socket
import threading
import uuid


class Telephone:
    """An account's device at an address of its own: 127.0.0.1 and a port."""

    def __init__(self, server, user, password, domain, agent):
        self.server, self.user, self.password, self.domain, self.agent = server, user, password, domain, agent
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(5)
        self.port = self.socket.getsockname()[1]
        self.own = f"sip:{user}@{domain}"
        self.contact = f"<sip:{user}@127.0.0.1:{self.port}>"
        self.answers, self.cseq, self.calls = {}, 0, {}
        #: How an INVITE is answered: a list of statuses.
        self.manner = [180]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                text, address = self.socket.recvfrom(65535)
            except socket.timeout:
                continue
            except OSError:
                return
            text = text.decode(errors="replace")
            if text.startswith("SIP/2.0 "):
                number = re.search(r"^CSeq: *(\d+ \w+)", text, re.M | re.I)[1]
                call = re.search(r"^Call-ID: *(\S+)", text, re.M | re.I)[1]
                if int(text[8:11]) >= 180:
                    self.answers.setdefault((call, number), []).append(text)
            else:
                self.answer(text, address)

    def answer(self, request, address):
        method = request.split(" ", 1)[0]
        if method == "ACK":
            return
        for status in self.manner if method == "INVITE" else [200]:
            self.send(response(request, status, self.contact), address)

    def send(self, text, address=None):
        self.socket.sendto(text.encode(), address or self.server)

    def ask(self, method, uri, to=None, headers="", body="", call=None, within=None):
        """Sends a request, once more with the password if that is asked for; gives the last answer."""
        call = call or str(uuid.uuid4())
        told, credentials = "", ""
        for _ in range(2):
            self.cseq += 1
            text = (f"{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{self.port};branch=z9hG4bK{uuid.uuid4().hex};rport\r\n"
                    f"Max-Forwards: 70\r\nFrom: <{self.own}>;tag={call[:8]}\r\nTo: {to or f'<{uri}>'}\r\nCall-ID: {call}\r\n"
                    f"CSeq: {self.cseq} {method}\r\nContact: {self.contact}\r\nUser-Agent: {self.agent}\r\n{within or ''}{headers}{credentials}"
                    f"Content-Length: {len(body)}\r\n\r\n{body}")
            self.send(text)
            told = self.told(call, f"{self.cseq} {method}")
            challenge = re.search(r"^(WWW|Proxy)-Authenticate: Digest (.*)$", told, re.M | re.I)
            if told[8:11] not in ("401", "407") or not challenge:
                return call, told
            if method == "INVITE":
                self.acknowledge(call, uri, told)
            credentials = self.credentials(challenge, method, uri)
        return call, told

    def told(self, call, number):
        end, answers = threading.Event(), []
        for tried in range(400):
            answers = self.answers.get((call, number), [])
            # A call that rings may be answered at once, or not at all.
            if answers and (int(answers[-1][8:11]) >= 200 or tried > 60):
                return answers[-1]
            end.wait(0.025)
        raise SystemExit(f"telephones: {self.user} got no answer to {number}")

    def credentials(self, challenge, method, uri):
        part = dict(re.findall(r'(\w+)="?([^",]*)"?', challenge[2]))
        md5 = lambda text: hashlib.md5(text.encode()).hexdigest()
        secret, about = md5(f"{self.user}:{part['realm']}:{self.password}"), md5(f"{method}:{uri}")
        answer = md5(f"{secret}:{part['nonce']}:00000001:telephone:auth:{about}")
        name = "Authorization" if challenge[1].lower() == "www" else "Proxy-Authorization"
        return (f'{name}: Digest username="{self.user}", realm="{part["realm"]}", nonce="{part["nonce"]}", uri="{uri}", response="{answer}", '
                f'algorithm=MD5, qop=auth, nc=00000001, cnonce="telephone"\r\n')

    def register(self, expires=3600):
        return self.ask("REGISTER", f"sip:{self.domain}", f"<{self.own}>", f"Expires: {expires}\r\n")[1]

    def watch(self, user, event="dialog"):
        return self.ask("SUBSCRIBE", f"sip:{user}@{self.domain}", headers=f"Event: {event}\r\nExpires: 3600\r\n")[1]

    def publish(self, state):
        """Its line: early is ringing, confirmed is in use, terminated is idle."""
        body = (f'<?xml version="1.0"?><dialog-info xmlns="urn:ietf:params:xml:ns:dialog-info" version="0" state="full" entity="{self.own}">'
                f'<dialog id="1"><state>{state}</state></dialog></dialog-info>')
        headers = "Event: dialog\r\nExpires: 3600\r\nContent-Type: application/dialog-info+xml\r\n"
        return self.ask("PUBLISH", self.own, headers=headers, body=body)[1]

    def invite(self, user):
        """A call; gives what hangs it up if it is answered."""
        uri = f"sip:{user}@{self.domain}"
        body = f"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {self.port + 1} RTP/AVP 0\r\n"
        call, told = self.ask("INVITE", uri, headers="Content-Type: application/sdp\r\n", body=body)
        if int(told[8:11]) >= 200:
            self.acknowledge(call, uri, told)
        return (call, told) if told.startswith("SIP/2.0 200") else None

    def acknowledge(self, call, uri, told):
        contact = re.search(r"^Contact: *<([^>]+)>", told, re.M | re.I)
        target = contact[1] if contact and told.startswith("SIP/2.0 200") else uri
        self.send(self.within("ACK", target, call, told, re.search(r"^CSeq: *(\d+)", told, re.M | re.I)[1]))

    def hang_up(self, call, told):
        contact = re.search(r"^Contact: *<([^>]+)>", told, re.M | re.I)[1]
        self.cseq += 1
        self.send(self.within("BYE", contact, call, told, self.cseq))
        self.told(call, f"{self.cseq} BYE")

    def within(self, method, target, call, told, number):
        line = lambda name: re.search(rf"^{name}: *(.*)$", told, re.M | re.I)[1].strip()
        routes = re.findall(r"^Record-Route: *(.*)$", told, re.M | re.I)[::-1]
        routes = "".join(f"Route: {route.strip()}\r\n" for route in routes)
        via = re.search(r"^Via: *(.*)$", told, re.M | re.I)[1].strip() if method == "ACK" and not told.startswith("SIP/2.0 200") \
            else f"SIP/2.0/UDP 127.0.0.1:{self.port};branch=z9hG4bK{uuid.uuid4().hex};rport"
        return (f"{method} {target} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n{routes}From: {line('From')}\r\nTo: {line('To')}\r\n"
                f"Call-ID: {call}\r\nCSeq: {number} {method}\r\nContent-Length: 0\r\n\r\n")


def response(request, status, contact):
    reasons = {180: "Ringing", 200: "OK", 486: "Busy Here", 603: "Decline"}
    kept = re.findall(r"^(?:Via|From|Call-ID|CSeq|Record-Route): .*$", request, re.M | re.I)
    to = re.search(r"^To: *(.*)$", request, re.M | re.I)[1].strip()
    to = to if ";tag=" in to else f"{to};tag=telephone"
    kept = "\r\n".join(one.rstrip("\r") for one in kept)
    body, kind = "", ""
    if status == 200 and request.startswith("INVITE"):
        body = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n"
        kind = "Content-Type: application/sdp\r\n"
    return f"SIP/2.0 {status} {reasons[status]}\r\n{kept}\r\nTo: {to}\r\nContact: {contact}\r\n{kind}Content-Length: {len(body)}\r\n\r\n{body}"
