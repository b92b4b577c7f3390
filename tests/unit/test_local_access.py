"""Who may ask the embedded backend over HTTP, and who is refused."""

import pytest
from starlette.testclient import TestClient

from local_served import URL, served
from verl_otel.local.server import create_app


@pytest.fixture
def store():
    return served()


@pytest.fixture
def client(store, tmp_path):
    with TestClient(create_app(store, page=tmp_path / "page"), base_url=URL) as found:
        yield found


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:4318"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": ""}, 421),
        ({"host": "[::1"}, 421),
        ({"host": "localhost:4318"}, 200),
        ({"host": "[::1]:4318"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": URL}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_other_hosts_and_other_origins_are_refused(client, headers, status):
    answer = client.get("/api/runs", headers=headers)
    assert answer.status_code == status
    if status != 200:
        assert "error" in answer.json()


def test_a_page_of_another_origin_may_not_send_otlp_either(client, store):
    body = {"headers": {"content-type": "application/x-protobuf"}, "content": b""}
    assert client.post("/v1/traces", **body).status_code == 200
    body["headers"]["origin"] = "https://evil.example"
    assert client.post("/v1/traces", **body).status_code == 403
    assert len(store.accepted) == 1


def test_a_link_from_elsewhere_may_open_the_page(client):
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 503


@pytest.fixture
def guarded(store, tmp_path):
    app = create_app(store, token="s3cret", bind="0.0.0.0", page=tmp_path)
    with TestClient(app, base_url="http://node-1:4318", follow_redirects=False) as found:
        yield found


def test_with_a_token_the_link_gives_a_cookie_and_hides_the_token(guarded):
    assert guarded.get("/api/runs").status_code == 401
    assert guarded.get("/").status_code == 401
    assert guarded.get("/?token=wrong").status_code == 401
    answer = guarded.get("/?token=s3cret&x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?x=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "s3cret" not in cookie
    assert guarded.get("/api/runs").status_code == 200, "the cookie is kept"


def test_with_a_token_programs_show_it_in_a_header(guarded):
    assert guarded.get("/api/runs", headers={"authorization": "Bearer s3cret"}).status_code == 200
    assert guarded.get("/api/runs", headers={"authorization": "Bearer other"}).status_code == 401
    sent = {"content": b"", "headers": {"content-type": "application/x-protobuf"}}
    assert guarded.post("/v1/traces", **sent).status_code == 401


def test_a_bound_address_has_names_that_nobody_told_us_and_the_token_keeps_others_out(store, tmp_path):
    app = create_app(store, token="s", bind="10.1.2.3", page=tmp_path)
    with TestClient(app, base_url="http://node-1.cluster:4318") as client:
        assert client.get("/api/runs", headers={"authorization": "Bearer s"}).status_code == 200
        assert client.get("/api/runs", headers={"host": "evil.example"}).status_code == 401


def test_without_a_token_a_bound_address_is_its_only_name(store, tmp_path):
    with TestClient(create_app(store, bind="10.1.2.3", page=tmp_path), base_url="http://10.1.2.3:4318") as client:
        assert client.get("/api/runs").status_code == 200
        assert client.get("/api/runs", headers={"host": "evil.example"}).status_code == 421
