"""Checks logins by OpenID Connect at real servers with node-oidc-provider.

Usage: check.py ESKER PROVIDER FOLDER

ESKER is the command, PROVIDER the program `provider.mjs` beside its packages, FOLDER an empty folder for databases and logs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from browser import Browser, Page
from processes import DEADLINE, ENVIRONMENT, Failed, Lab, Process, Server, free_port, wait_for

AUDIENCE = "https://data.example.org"
SECRET = "a secret: 50% & more"
SHOWN = 600
"""Characters of an unexpected answer that are printed."""

failures: list[str] = []
passed = 0


def check(condition: object, message: Callable[[], str] | str) -> None:
    global passed
    if condition:
        passed += 1
        return
    text = message() if callable(message) else message
    failures.append(text)
    print(f"FAILED {text}", flush=True)


def expect(page: Page, status: int, *texts: str) -> None:
    """Compares the status of an answer, and looks for texts in it."""
    good = page.status == status and all(text in page.text for text in texts)
    check(good, lambda: f"{page.url}: expected {status} and {texts}, got {page.status}: {page.text[:SHOWN]}")


class OpenIdProvider:
    """The provider on a port of its own."""

    def __init__(self, lab: Lab, name: str, port: int) -> None:
        self.lab, self.name, self.port = lab, name, port
        self.issuer = f"http://127.0.0.1:{port}"
        self.keys = lab.folder / f"{name}.keys"
        self.process: Process | None = None

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.issuer}/jwks", timeout=5).close()
        except OSError:
            return False
        return True

    def start(self, redirect: str) -> None:
        arguments = ["node", self.lab.program, str(self.port), str(self.keys), redirect]
        self.process = self.lab.start(arguments, self.name, {})
        self.process.wait_until(self.answers, "listening")

    def stop(self) -> None:
        if self.process:
            self.process.stop(signal.SIGKILL)

    def public_keys(self) -> bytes:
        with urllib.request.urlopen(f"{self.issuer}/jwks", timeout=DEADLINE) as answer:
            return bytes(answer.read())

    def sign(self, header: dict[str, object], claims: dict[str, object]) -> str:
        """Returns a token with any header and claims, signed by the provider's RSA key."""
        body = json.dumps({"header": header, "claims": claims}).encode()
        with urllib.request.urlopen(f"{self.issuer}/test/sign", body, timeout=DEADLINE) as answer:
            return str(answer.read().decode())

    def post(self, path: str, fields: dict[str, str]) -> dict[str, str]:
        page = Browser().open(f"{self.issuer}{path}", fields)
        return dict(json.loads(page.text))

    def device_token(self, client: str, user: str) -> str:
        """Returns a real ID token of a client, by the login of a device."""
        begun = self.post("/device/auth", {"client_id": client, "scope": "openid profile"})
        Browser().log_in(begun["verification_uri_complete"], self.issuer, user)
        fields = {"client_id": client, "device_code": begun["device_code"]}
        return self.post("/token", fields | {"grant_type": "urn:ietf:params:oauth:grant-type:device_code"})["id_token"]


def encoded(json_value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(json_value).encode()).decode().rstrip("=")


class Check:
    """A server with a provider, and users of this machine who log in."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        # Any user of this machine except root.
        self.user = next(user for user in pwd.getpwall() if user.pw_uid != 0)
        self.provider = OpenIdProvider(lab, "provider", free_port())
        secret = lab.folder / "secret"
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        self.settings = f"""[access]
loopback = "off"
[oidc]
issuer = "{self.provider.issuer}"
client_id = "esker"
client_secret_file = "{secret}"
device_client_id = "esker-command"
audience = "{AUDIENCE}"
"""
        self.server = Server(lab, "server", self.settings, {})
        self.url = f"http://{self.server.address}"
        self.login_url = f"{self.url}/api/v1/oidc/login"
        self.provider.start(f"{self.url}/api/v1/oidc/callback")
        self.home = lab.folder / "home"
        self.home.mkdir()
        self.environment = {"HOME": str(self.home), "ESKER_TRUST_NEW_HOST": "1", "SSH_AUTH_SOCK": ""}
        self.browser = Browser()
        self.logins = 0

    def session(self, browser: Browser) -> Page:
        return browser.open(f"{self.url}/api/v1/session")

    def bearer(self, token: str, path: str = "/api/v1/session") -> Page:
        return Browser().open(f"{self.url}{path}", headers={"Authorization": f"Bearer {token}"})

    def claims(self, **changes: object) -> dict[str, object]:
        now = int(time.time())
        claims = {"iss": self.provider.issuer, "aud": "esker-command", "sub": "7", "exp": now + 600, "iat": now}
        return claims | {"preferred_username": self.user.pw_name} | changes

    def code_flow(self) -> None:
        expect(Browser().open(f"{self.url}/api/v1/oidc"), 200, self.provider.issuer, '"client_id":"esker-command"')
        expect(self.session(self.browser), 401)
        expect(self.browser.log_in(self.login_url, self.provider.issuer, self.user.pw_name), 200, "<title>Esker")
        session = self.session(self.browser)
        expect(session, 200, '"how":"oidc"', '"role":"read"', f'"name":"{self.user.pw_name}"', "(127.0.0.1)")
        user = json.loads(session.text)["user"]
        check(user.split(":")[0] == str(self.user.pw_uid), f"the session is of {user}, expected {self.user.pw_uid}")
        # The session is limited to what its user may read.
        expect(self.browser.open(f"{self.url}/metrics"), 403, f"bound to user {self.user.pw_uid}")
        expect(self.browser.open(f"{self.url}/api/v1/sessions"), 403)
        ticket = self.browser.open(f"{self.url}/api/v1/session/ticket", {})
        expect(ticket, 403, "a session cannot create tickets")
        cookies = self.browser.redirects.cookies
        for name, attribute in [("esker_login=", "SameSite=Lax"), ("esker_session=", "SameSite=Strict")]:
            own = [cookie for cookie in cookies if cookie.startswith(name)]
            good = own and all(attribute in cookie and "HttpOnly" in cookie for cookie in own)
            check(good, f"cookies {name}: {own}")

    def replays(self) -> None:
        callbacks = [url for url in self.browser.redirects.addresses if "/api/v1/oidc/callback?" in url]
        check(len(callbacks) == 1, f"the addresses of the callback: {callbacks}")
        expect(self.browser.open(callbacks[0]), 400, "or it was finished already")
        # The answer to a login that another browser has begun.
        victim, thief = Browser(), Browser()
        page = victim.open(self.login_url)
        state = re.search(r"[?&]state=([0-9a-f]+)", victim.redirects.addresses[0])
        check(state and page.status == 200, f"no state: {victim.redirects.addresses}")
        stolen = f"{self.url}/api/v1/oidc/callback?code=x&state={state[1] if state else ''}"
        expect(thief.open(stolen), 400, "this browser has begun no such login")
        expect(victim.open(stolen), 400, "or it was finished already")
        # A wrong code, and an answer of another provider.
        other = Browser()
        other.open(self.login_url)
        state = re.search(r"[?&]state=([0-9a-f]+)", other.redirects.addresses[0])
        wrong = f"{self.url}/api/v1/oidc/callback?code=x&state={state[1] if state else ''}"
        expect(other.open(wrong), 403, self.provider.issuer, "it refused the code of the login", "invalid_grant")
        other.open(self.login_url)
        state = re.search(r"[?&]state=([0-9a-f]+)", other.redirects.addresses[-2])
        wrong = f"{self.url}/api/v1/oidc/callback?code=x&iss=http%3A%2F%2Fother&state={state[1] if state else ''}"
        expect(other.open(wrong), 400, "another provider")
        query = other.redirects.addresses[0]
        for part in ["code_challenge_method=S256", "nonce=", "response_type=code", "scope=openid%20profile"]:
            check(part in query, f"`{part}` is missing in {query}")

    def refused_users(self) -> None:
        for user, words in [("nobody-at-all", "no user `nobody-at-all`"), ("root", "does not log in by a provider")]:
            page = Browser().log_in(self.login_url, self.provider.issuer, user)
            expect(page, 403, words, self.provider.issuer)
            expect(self.bearer(self.provider.sign({}, self.claims(preferred_username=user))), 401, words)
        browser = Browser()
        page = browser.open(self.login_url)
        expect(browser.open(f"{page.url}/abort"), 403, self.provider.issuer, "access_denied")

    def bearers(self) -> None:
        now = int(time.time())
        sign = self.provider.sign
        good = sign({}, self.claims())
        expect(self.bearer(good), 200, '"how":"oidc"', f'"name":"{self.user.pw_name}"')
        expect(self.bearer(good, "/metrics"), 403, "bound to user")
        expect(self.bearer(sign({"typ": "at+jwt"}, self.claims(aud=AUDIENCE))), 200, '"how":"oidc"')
        header = json.loads(base64.urlsafe_b64decode(good.split(".")[0] + "=="))
        signed, signature = good.rsplit(".", 1)
        other = encoded(self.claims(preferred_username="root", sub="8"))
        key = json.loads(self.provider.public_keys())["keys"][0]
        shared = [self.provider.public_keys(), json.dumps(key).encode(), base64.urlsafe_b64decode(key["n"] + "==")]
        forged = []
        for secret in shared:
            text = f"{encoded(header | {'alg': 'HS256'})}.{encoded(self.claims())}"
            mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
            forged.append((f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}", "the algorithm `HS256`"))
        refused = [
            (f"{encoded(header | {'alg': 'none'})}.{encoded(self.claims())}.", "the algorithm `none`"),
            (f"{encoded({'alg': 'none'})}.{encoded(self.claims())}.", "the algorithm `none`"),
            *forged,
            (f"{signed}.{signature[:-4]}AAAA", "signature is not by its issuer"),
            (f"{signed.split('.')[0]}.{other}.{signature}", "signature is not by its issuer"),
            (sign({}, self.claims(aud="other-program")), "its audience is `other-program`"),
            (sign({}, self.claims(aud=["esker", "other-program"])), "its audience is"),
            (sign({"typ": "at+jwt"}, self.claims()), "its audience is `esker-command`"),
            (sign({}, self.claims(exp=now - 120)), "it expired 120 s ago"),
            (sign({}, self.claims(exp="never")), "`exp` is not a number"),
            (sign({}, self.claims(iat=now + 600)), "valid only in the future"),
            (sign({}, self.claims(iss="https://login.example.org")), "its issuer is `https://login.example.org`"),
            (sign({"typ": "logout+jwt"}, self.claims()), "its type is `logout+jwt`"),
            (sign({"crit": ["b64"]}, self.claims()), "critical extensions"),
            (sign({}, self.claims(preferred_username=7)), "no claim `preferred_username`"),
            ("a.b.c", "not a signed JSON Web Token"),
            (self.provider.device_token("other-program", self.user.pw_name), "its audience is `other-program`"),
        ]
        elsewhere = OpenIdProvider(self.lab, "elsewhere", free_port())
        elsewhere.start("http://127.0.0.1/")
        foreign = elsewhere.device_token("esker-command", self.user.pw_name)
        refused.append((foreign, "published no key"))
        elsewhere.stop()
        for token, words in refused:
            page = self.bearer(token)
            if "expired" in words:
                words = "it expired 12"
            expect(page, 401, words)
        expect(self.bearer(self.provider.device_token("esker-command", self.user.pw_name)), 200, '"how":"oidc"')

    def esker(self, *arguments: str, status: int = 0) -> str:
        return self.lab.run(*arguments, environment=self.environment, status=status)

    def log_in_by_command(self, user: str) -> str:
        self.logins += 1
        log = self.lab.folder / f"login-{self.logins}.log"
        process = self.lab.start([self.lab.esker, "login", self.server.url], log.stem, self.environment)
        page = re.compile(r"^  (http\S+\?user_code=\S+)$", re.MULTILINE)
        process.wait_until(lambda: page.search(log.read_text()) is not None, "printing a page with the code")
        found = page.search(log.read_text())
        Browser().log_in(found[1] if found else "", self.provider.issuer, user)
        wait_for(lambda: process.child.poll() is not None, "the end of `esker login`")
        check(process.child.returncode == 0, lambda: f"esker login: {log.read_text()}")
        return log.read_text()

    def tokens(self) -> dict[str, dict[str, str]]:
        return dict(json.loads((self.home / ".esker/tokens").read_text()))

    def device_flow(self) -> None:
        before = self.esker("schema", self.server.url, status=2)
        check("asks for a key" in before, before)
        text = self.log_in_by_command(self.user.pw_name)
        for words in [f"  {self.provider.issuer}/device\n", "  code ", f"logged in at {self.server.address} until "]:
            check(words in text, f"`{words}` is missing: {text}")
        mode = (self.home / ".esker/tokens").stat().st_mode & 0o777
        check(mode == 0o600, f"~/.esker/tokens has mode {mode:o}")
        check(list(self.tokens()) == [self.server.address], f"logins: {list(self.tokens())}")
        check("job" in self.esker("schema", self.server.url), "the schema is not shown")
        refused = self.esker("grant", self.server.url, "--list", status=2)
        check("needs `admin`" in refused and self.user.pw_name in refused, refused)
        # An expired token is renewed.
        tokens = self.tokens()
        old = f"{encoded({})}.{encoded({'exp': int(time.time()) - 5})}.x"
        tokens[self.server.address]["token"] = old
        (self.home / ".esker/tokens").write_text(json.dumps(tokens))
        self.esker("schema", self.server.url)
        check(self.tokens()[self.server.address]["token"] != old, "the token was not renewed")
        self.console_by_command()
        self.renewal_in_a_session()
        self.esker("logout", self.server.url)
        check(self.tokens() == {}, f"logins after a logout: {list(self.tokens())}")
        self.esker("schema", self.server.url, status=2)
        self.esker("logout", self.server.url, status=2)
        self.log_in_by_command("nobody-at-all")
        refused = self.esker("schema", self.server.url, status=2)
        check("no user `nobody-at-all`" in refused and "esker logout" in refused, refused)
        self.log_in_by_command(self.user.pw_name)

    def console_by_command(self) -> None:
        """`esker console` shows the pages to the user who has logged in by the command."""
        log = self.lab.folder / "console.log"
        arguments = [self.lab.esker, "console", f"{self.server.url}?ssh=on", "--print"]
        process = self.lab.start(arguments, log.stem, self.environment)
        process.wait_until(lambda: log.read_text().endswith("/\n"), "printing the address of the console")
        page = Browser().open(f"{log.read_text().strip()}api/v1/session")
        expect(page, 200, '"how":"oidc"', f'"name":"{self.user.pw_name}"', self.server.url)
        process.stop()

    def renewal_in_a_session(self) -> None:
        """A command that goes on longer than its token gets another connection, with a newer token."""
        tokens = self.tokens()
        # A command renews a token that lasts less than 30 s; the server ends a connection 15 s before its token ends.
        short = self.provider.sign({}, self.claims(exp=int(time.time()) + 35))
        tokens[self.server.address]["token"] = short
        (self.home / ".esker/tokens").write_text(json.dumps(tokens))
        log = self.lab.folder / "shell.log"
        with log.open("w") as output:
            shell = subprocess.Popen(
                [self.lab.esker, "shell", self.server.url],
                env=ENVIRONMENT | self.environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
            )

        def renewed() -> bool:
            if shell.stdin:
                shell.stdin.write("schema\n")
                shell.stdin.flush()
            return self.tokens()[self.server.address]["token"] != short

        try:
            wait_for(renewed, "the renewal of a token in a session")
            shell.communicate("schema\n", DEADLINE)
        finally:
            shell.kill()
        text = log.read_text()
        check(shell.returncode == 0 and "error" not in text, lambda: f"esker shell: {text[-SHOWN:]}")

    def rotation(self) -> None:
        """New keys of the provider are found by their first token; tokens by the old ones are refused then."""
        old = self.provider.sign({}, self.claims(sub="old"))
        expect(self.bearer(old), 200)
        self.provider.stop()
        self.provider.keys.unlink()
        self.provider.start(f"{self.url}/api/v1/oidc/callback")
        new = self.provider.sign({}, self.claims(sub="new"))
        # Keys that are not known are asked for once a minute.
        wait_for(lambda: self.bearer(new).status == 200, "a token by a new key")
        check(True, "")
        older = self.claims(sub="older")
        expect(self.bearer(old.rsplit(".", 1)[0].split(".")[0] + "." + encoded(older) + ".AAAA"), 401, "no key")
        page = Browser().log_in(self.login_url, self.provider.issuer, self.user.pw_name)
        expect(page, 200, "<title>Esker")

    def provider_down(self) -> None:
        token = self.provider.sign({}, self.claims(sub="down"))
        self.provider.stop()
        # Sessions go on, and tokens whose keys are known.
        expect(self.session(self.browser), 200, '"how":"oidc"')
        expect(self.bearer(token), 200, '"how":"oidc"')
        # The description of the provider is used for five seconds.
        wait_for(lambda: Browser().open(self.login_url).status == 502, "an error for a login without the provider")
        expect(Browser().open(self.login_url), 502, self.provider.issuer, "nothing listens at")
        text = self.esker("login", self.server.url, status=1)
        check(f"the OpenID provider `{self.provider.issuer}` cannot be used" in text, text)
        tokens = self.tokens()
        tokens[self.server.address]["token"] = f"{encoded({})}.{encoded({'exp': 7})}.x"
        (self.home / ".esker/tokens").write_text(json.dumps(tokens))
        text = self.esker("schema", self.server.url, status=2)
        check("was not renewed" in text and self.provider.issuer in text and "esker login" in text, text)
        # Logging out ends the session.
        request = urllib.request.Request(f"{self.url}/api/v1/session", method="DELETE")
        self.browser.opener.open(request, timeout=DEADLINE).close()
        expect(self.session(self.browser), 401)

    def mistakes(self) -> None:
        """A server with wrong settings does not start and says why."""
        file = self.lab.folder / "wrong.toml"
        for old, new, words in [
            (f'issuer = "{self.provider.issuer}"', 'issuer = "http://login.example.org"', f"{file}:4:10: `oidc.issuer` holds"),
            ('client_id = "esker"', "", "`oidc.client_id` is missing"),
            ("client_secret_file", "client_secret", "unknown key `oidc.client_secret`"),
        ]:
            file.write_text(self.settings.replace(old, new))
            text = self.lab.run("serve", self.server.folder, "--config", str(file), status=2)
            check(words in text, f"`{words}` is missing: {text}")
        (self.lab.folder / "secret").chmod(0o644)
        file.write_text(self.settings)
        empty = str(self.lab.folder / "empty.esker")
        self.lab.run("init", empty, "--quiet")
        text = self.lab.run("serve", empty, "--config", str(file), "--listen", "127.0.0.1:0", status=2)
        check("chmod 600" in text, text)

    def run(self) -> None:
        self.code_flow()
        self.replays()
        self.refused_users()
        self.bearers()
        self.device_flow()
        self.rotation()
        self.provider_down()
        self.mistakes()


def main() -> int:
    esker, provider, folder = sys.argv[1:]
    lab = Lab(esker, provider, pathlib.Path(folder))
    try:
        Check(lab).run()
    except Failed as e:
        failures.append(str(e))
        print(f"FAILED {e}", flush=True)
    finally:
        lab.stop()
    if failures:
        for log in ["server.log", "provider.log"]:
            text = (pathlib.Path(folder) / log).read_text() if (pathlib.Path(folder) / log).exists() else ""
            print(f"--- the end of {log}:\n{text[-4000:]}")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
