#!/usr/bin/env python3
"""A tiny API server for trying kubegc on odd clusters, without internet. Standard library only, plain HTTP/1.1 on loopback.

    python3 fake_api.py SCENARIO.json [--port 18080] [--log FILE]
    kubegc controller plan --kubeconfig fake.kubeconfig        # server: http://127.0.0.1:18080

It serves aggregated discovery, paged lists of metadata (whole objects for pods and nodes), live reads, watches with
bookmarks, DELETE with preconditions and policies, merge patches, server-side apply that creates (the uid is "applied"), and POST of events with the name check of a real server.
What is odd about a scenario is in its file:

  serve        [{apiVersion, kind, resource, namespaced, verbs?, freshness?}]
  objects      whole objects
  list_version {"group/version/resource": "..."}   resourceVersion of lists; "" as some aggregated servers send
  notfound     {"group/version/resource": {"kind": "namespaces"}}    details of a 404 that differ from the usual ones
  throttle     {"first": N, "match": "substring", "retry_after": 1}  the first N requests of each path get a plain-text 429
  rules        [{"verb": "LIST|GET|DELETE", "path": "end of the path", "skip": N, "first": N, "code": N, "body": {}, "retry_after": 1, "acts": false, "endless": false}]
               after N that do not, the first N such requests get this answer, all if there is no "first"; with "acts" the deletion is made all the same; with "endless" the answer begins as a list and never ends
  unlisted     ["name"]   objects that only a read of them shows
  delete_error {"group/version/resource": [code, reason, message]}
  generate     {"count": N, "annotation_bytes": N, "resource": "configmaps"}   N dangling objects with a large annotation
  readyz       [code, text]
  legacy       true   discovery in the form before 1.26
  mixed        "/api" or "/apis"   with "legacy", this path alone answers in the aggregated form
  no_preferred true   with "legacy", each group has an empty preferredVersion
  empty_groups ["group/version"]   with "legacy", group-versions without resources
  raw          {"path": {"body": {}} or {"code": N, "text": "", "type": ""}}   with "legacy", the answer to a path
  prefix       "/path"   where the API begins, as behind a proxy
  unauthorized true   every answer is 401
  odd_list     {"group/version/resource": {"patch": {}}}   each item of the list has these fields of metadata
               {"group/version/resource": {"expire": N, "inconsistent": true}}   the first N later pages are 410, with a token to go on if inconsistent
  copies       {"object": {}, "count": N}   N copies of an object; names and uids are numbered
  tls          {"identity": "FILE", "clients": "FILE"}   TLS with this certificate and key; clients need a certificate of this authority
  tell         true   each end of an object is a line of the output at once
  end_after    N      ends after N seconds, so that no client waits for ever
At the end (Ctrl-C or SIGTERM) it prints what it saw: TCP connections, requests by verb, answers by code, rule violations.
"""
import argparse, base64, copy, datetime, json, re, signal, sys, threading, time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
DNS = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")

def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

class World:
    def __init__(self, scenario):
        self.s, self.lock, self.version = scenario, threading.RLock(), 1000
        self.served = {self.path_of(x): x for x in scenario["serve"]}
        self.objects, self.events = {}, []          # (resource path, namespace, name) -> object ; [(rv, path, type, obj)]
        self.seen, self.codes, self.verbs, self.connections = Counter(), Counter(), Counter(), set()
        self.violations, self.notes = [], []
        for o in scenario.get("objects", []):
            self.put(o)
        c = scenario.get("copies", {"count": 0})
        for n in range(c["count"]):
            o = copy.deepcopy(c["object"])
            o["metadata"].update(name=f"{o['metadata']['name']}{n:05}", uid=f"{o['metadata']['uid'][:24]}{n:012x}")
            self.put(o)
        g = scenario.get("generate")
        if g:
            blob = "x" * g["annotation_bytes"]
            for n in range(g["count"]):
                self.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                    "namespace": "big", "name": f"big-{n:05}", "uid": f"00000000-0000-4000-8000-{n:012x}",
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": blob},
                    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone",
                                         "uid": "11111111-1111-4111-8111-111111111111"}]}})
    def gv_paths(self):
        return {("/apis/" if "/" in x["apiVersion"] else "/api/") + x["apiVersion"] for x in self.s["serve"]} | {"/apis/" + e for e in self.s.get("empty_groups", [])}
    @staticmethod
    def path_of(x):
        root = "/apis" if "/" in x["apiVersion"] else "/api"
        return f"{root}/{x['apiVersion']}/{x['resource']}"
    @staticmethod
    def gvr(x):
        return f"{x['apiVersion']}/{x['resource']}"
    def put(self, o):
        x = next(x for x in self.s["serve"] if (x["apiVersion"], x["kind"]) == (o["apiVersion"], o["kind"]))
        m = o["metadata"]
        self.version += 1
        m.setdefault("resourceVersion", str(self.version)); m.setdefault("creationTimestamp", now())
        self.objects[(self.path_of(x), m.get("namespace", ""), m["name"])] = o
    def changed(self, key, kind, o):
        self.version += 1
        o["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, key[0], kind, copy.deepcopy(o)))
        if kind == "DELETED" and self.s.get("print_deletions"): print(f"gone: {o['kind']}/{o['metadata']['name']}", flush=True)
    def rule(self, verb, path):
        for n, r in enumerate(self.s.get("rules", [])):
            if r["verb"] == verb and path.endswith(r["path"]):
                with self.lock:
                    self.seen[("rule", n)] += 1
                    if 0 < self.seen[("rule", n)] - r.get("skip", 0) <= r.get("first", sys.maxsize): return r

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world = None
    def log_message(self, *_): pass

    # --- answers
    def answer(self, code, body, headers=(), kind="application/json"):
        if self.instead: (code, body), self.instead = self.instead, None
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind); self.send_header("Content-Length", str(len(data)))
        for k, v in headers: self.send_header(k, v)
        self.end_headers(); self.wfile.write(data)
        self.world.codes[code] += 1
        print(f"{now()} conn={self.client_address[1]} {self.command} {self.path[:160]} -> {code}", file=LOG, flush=True)
    def status(self, code, reason, message, **details):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure" if code >= 400 else "Success",
                           "message": message, "reason": reason, "details": details, "code": code})

    # --- routing
    def route(self):
        w, self.instead = self.world, None
        if w.s.get("prefix"):
            if not self.path.startswith(w.s["prefix"] + "/"):
                return self.answer(404, b"<html><body>not found</body></html>", kind="text/html")
            self.path = self.path[len(w.s["prefix"]):]
        u = urlsplit(self.path)
        self.q = {k: v[-1] for k, v in parse_qs(u.query).items()}
        w.connections.add(self.client_address); w.verbs[self.command] += 1
        if w.s.get("unauthorized"): return self.status(401, "Unauthorized", "Unauthorized")
        t = w.s.get("throttle")
        if t and t.get("match", "") in u.path:
            w.seen[u.path] += 1
            if w.seen[u.path] <= t["first"]:
                code, hdr = t.get("code", 429), ([("Retry-After", str(t.get("retry_after", 1)))] if t.get("header", True) else [])
                if t.get("status"):
                    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": t.get("message", "storage is (re)initializing"), "reason": t["status"], "details": {"retryAfterSeconds": t.get("retry_after", 1)}, "code": code}
                    return self.answer(code, body, hdr)
                if t.get("drop"):
                    self.close_connection = True; self.connection.close(); return
                return self.answer(code, b"Too many requests, please try again later.\n", hdr, "text/plain; charset=utf-8")
        if u.path in ("/readyz", "/livez", "/healthz"):
            code, text = w.s.get("readyz", [200, "ok"])
            return self.answer(code, text.encode(), kind="text/plain")
        if u.path == "/version":
            return self.answer(200, {"major": "1", "minor": "36", "gitVersion": "v1.36.0-fake"})
        if w.s.get("legacy") and u.path != w.s.get("mixed") and u.path in {"/api", "/apis", *w.gv_paths()}: return self.legacy(u.path)
        if u.path in ("/api", "/apis"):
            return self.answer(200, self.discovery(u.path), kind="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        m = re.match(r"^(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?(?:/([^/]+))(?:/([^/]+))?(?:/([^/]+))?$", u.path)
        if not m: return self.answer(404, b"404 page not found\n", kind="text/plain")
        base, ns, res, name, sub = m.groups()
        path = f"{base}/{res}"
        if res == "events" and self.command == "POST": return self.event(ns)
        x = w.served.get(path)
        if not x: return self.answer(404, b"404 page not found\n", kind="text/plain")
        with_watch = self.q.get("watch") in ("1", "true")
        r = w.rule("LIST", u.path) if not name and not with_watch else None
        if r and r.get("endless"): return self.endless()
        if r: return self.answer(r["code"], r["body"], self.wait(r))
        if self.command == "GET" and not name: return self.watch(path, x) if with_watch else self.list(path, x, ns)
        key = (path, ns or "", name)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}") if self.command != "GET" else {}
        r = w.rule(self.command, u.path)
        if r and r.get("acts"): self.instead = (r["code"], r["body"])
        elif r: return self.answer(r["code"], r["body"], self.wait(r))
        with w.lock:
            o = w.objects.get(key)
            ge = w.s.get("get_error", {}).get(w.gvr(x))
            if ge and self.command == "GET": return self.status(ge[0], ge[1], ge[2], name=name, kind=x["resource"])
            if not o and self.command == "PATCH" and "apply" in self.headers.get("Content-Type", ""):
                body["metadata"].update(uid="applied", generation=1); w.put(body)
                w.notes.append(f"APPLY {x['kind']} {json.dumps(body['spec'])}")
                return self.answer(201, self.shown(x, body))
            if not o and w.gvr(x) in w.s.get("notfound_raw", {}): return self.answer(404, w.s["notfound_raw"][w.gvr(x)])
            if not o:
                d = {"name": name, "kind": x["resource"], **({"group": x["apiVersion"].split("/")[0]} if "/" in x["apiVersion"] else {})}
                d.update(w.s.get("notfound", {}).get(w.gvr(x), {}))
                return self.status(404, "NotFound", f'{d["kind"]} "{name}" not found', **d)
            if self.command == "GET": return self.answer(200, self.shown(x, o))
            if self.command == "DELETE": return self.delete(key, x, o, body)
            if self.command == "PATCH": return self.patch(key, x, o, body)
        self.status(405, "MethodNotAllowed", "no")
    do_GET = do_DELETE = do_PATCH = do_POST = lambda self: self.route()

    # --- parts
    def endless(self):
        self.close_connection = True
        self.send_response(200); self.send_header("Content-Type", "application/json"); self.end_headers()
        try:
            self.wfile.write(b'{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [')
            while True: self.wfile.write(b" " * 65536)
        except OSError: pass  # the client has enough
    @staticmethod
    def wait(rule):
        return [("Retry-After", str(rule["retry_after"]))] if "retry_after" in rule else []
    def legacy(self, path):
        w = self.world
        over = w.s.get("raw", {}).get(path)
        if over is not None:
            if "code" in over: return self.answer(over["code"], over["text"].encode(), kind=over.get("type", "text/plain"))
            return self.answer(200, over["body"])
        if path == "/api": return self.answer(200, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:443"}]})
        gvs = {}
        for x in w.s["serve"]:
            if "/" in x["apiVersion"]: gvs.setdefault(x["apiVersion"].split("/")[0], []).append(x["apiVersion"])
        for e in w.s.get("empty_groups", []): gvs.setdefault(e.split("/")[0], []).append(e)
        if path == "/apis":
            gs = []
            for g, vs in gvs.items():
                vs = list(dict.fromkeys(vs)); d = [{"groupVersion": v, "version": v.split("/")[1]} for v in vs]
                gs.append({"name": g, "versions": d, "preferredVersion": {"groupVersion": "", "version": ""} if w.s.get("no_preferred") else d[0], "serverAddressByClientCIDRs": None})
            return self.answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": gs})
        gv = path.split("/", 2)[2]
        rs = [{"name": x["resource"], "singularName": "", "namespaced": x["namespaced"], "kind": x["kind"], "verbs": x.get("verbs", ALL_VERBS)} for x in w.s["serve"] if x["apiVersion"] == gv]
        return self.answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": rs})
    def discovery(self, path):
        groups = {}
        for x in self.world.s["serve"]:
            g, _, v = x["apiVersion"].rpartition("/")
            if (g == "") == (path == "/api"): groups.setdefault(g, {}).setdefault(v, []).append(x)
        item = lambda x: {"resource": x["resource"], "responseKind": {"group": x["apiVersion"].rpartition("/")[0], "version": x["apiVersion"].rpartition("/")[2], "kind": x["kind"]},
                          "scope": "Namespaced" if x["namespaced"] else "Cluster", "singularResource": x["kind"].lower(), "verbs": x.get("verbs", ALL_VERBS)}
        versions = lambda vs: [{"version": v, "freshness": xs[0].get("freshness", "Current"), "resources": [item(x) for x in xs]} for v, xs in vs.items()]
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
                "items": [{"metadata": {"name": g, "creationTimestamp": None}, "versions": versions(vs)} for g, vs in groups.items()]}
    def shown(self, x, o):
        if "PartialObjectMetadata" in (self.headers.get("Accept") or ""):
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]}
        return o
    def list(self, path, x, ns):
        w = self.world
        with w.lock:
            all_ = [o for (p, n, name), o in sorted(w.objects.items()) if p == path and (not ns or n == ns) and name not in w.s.get("unlisted", [])]
            if self.q.get("fieldSelector", "").startswith("spec.nodeName="):
                all_ = [o for o in all_ if o["spec"].get("nodeName") == self.q["fieldSelector"][len("spec.nodeName="):]]
            limit, at = int(self.q.get("limit", 0)) or len(all_) or 1, int(self.q.get("continue", 0) or 0)
            page, more = all_[at:at + limit], at + limit < len(all_)
            meta = {"resourceVersion": w.s.get("list_version", {}).get(w.gvr(x), str(w.version))}
            if more: meta.update({"continue": str(at + limit), "remainingItemCount": len(all_) - at - limit})
            partial = "PartialObjectMetadataList" in (self.headers.get("Accept") or "")
            kind = ("PartialObjectMetadataList", "meta.k8s.io/v1") if partial else (x["kind"] + "List", x["apiVersion"])
            odd = w.s.get("odd_list", {}).get(w.gvr(x))
            if isinstance(odd, dict) and "patch" in odd:
                return self.answer(200, {"kind": kind[0], "apiVersion": kind[1], "metadata": meta, "items": [{"kind": "PartialObjectMetadata" if partial else x["kind"], "apiVersion": "meta.k8s.io/v1" if partial else x["apiVersion"], "metadata": {**o["metadata"], **odd["patch"]}} for o in page]})
            if isinstance(odd, dict) and "expire" in odd and at:
                w.seen["E" + path] += 1
                if w.seen["E" + path] <= odd["expire"]:
                    return self.answer(410, {"kind": "Status", "apiVersion": "v1", "metadata": {"continue": str(at) if odd.get("inconsistent") else ""}, "status": "Failure", "message": "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results.", "reason": "Expired", "code": 410})
            if odd == "null_items" and not page: return self.answer(200, {"kind": kind[0], "apiVersion": kind[1], "metadata": meta, "items": None})
            if odd == "no_items" and not page: return self.answer(200, {"kind": kind[0], "apiVersion": kind[1], "metadata": meta})
            if odd == "406": return self.status(406, "NotAcceptable", "only the following media types are accepted: application/json")
            if odd == "kind_List": return self.answer(200, {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": page})
            if odd == "whole": return self.answer(200, {"kind": x["kind"] + "List", "apiVersion": x["apiVersion"], "metadata": meta, "items": page})
            if odd == "whole_null": return self.answer(200, {"kind": x["kind"] + "List", "apiVersion": x["apiVersion"], "metadata": meta, "items": [{**o, "metadata": {**o["metadata"], "ownerReferences": None, "finalizers": None, "labels": None, "creationTimestamp": None}} for o in page]})
            if odd == "no_uid": return self.answer(200, {"kind": kind[0], "apiVersion": kind[1], "metadata": meta, "items": [{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {k: v for k, v in o["metadata"].items() if k != "uid"}} for o in page]})
            if odd == "no_meta": return self.answer(200, {"kind": kind[0], "apiVersion": kind[1], "metadata": {}, "items": page})
            if odd == "503": return self.status(503, "ServiceUnavailable", "service unavailable")
            if odd == "405": return self.status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            self.answer(200, {"kind": kind[0], "apiVersion": kind[1], "metadata": meta, "items": [self.shown(x, o) for o in page] if not partial else
                              [{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]} for o in page]})
    def watch(self, path, x):
        w = self.world
        self.send_response(200); self.send_header("Content-Type", "application/json"); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
        print(f"{now()} conn={self.client_address[1]} WATCH {path}", file=LOG, flush=True)
        until, at, partial = time.time() + float(self.q.get("timeoutSeconds", 60)), int(self.q.get("resourceVersion") or 0), "PartialObjectMetadata" in (self.headers.get("Accept") or "")
        last = 0
        expired = w.s.get("expire_first_watch") and w.seen["W" + path] == 0
        w.seen["W" + path] += 1
        def send(kind, o):
            line = json.dumps({"type": kind, "object": o}).encode() + b"\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n"); self.wfile.flush()
        try:
            if expired:
                send("ERROR", {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old resource version", "reason": "Expired", "code": 410}); self.wfile.write(b"0\r\n\r\n"); self.close_connection = True; return
            while time.time() < until:
                with w.lock: news = [e for e in w.events if e[0] > at and e[1] == path]; top = w.version
                for rv, _, kind, o in news:
                    send(kind, {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]} if partial else o); at = rv
                if time.time() - last > 10:
                    send("BOOKMARK", {"kind": "PartialObjectMetadata" if partial else x["kind"], "apiVersion": "meta.k8s.io/v1" if partial else x["apiVersion"], "metadata": {"resourceVersion": str(top), "creationTimestamp": None}}); last = time.time(); at = max(at, top)
                time.sleep(0.05)
            self.wfile.write(b"0\r\n\r\n")
        except OSError: pass
        self.close_connection = True
    def delete(self, key, x, o, body):
        w, m, pre = self.world, o["metadata"], body.get("preconditions") or {}
        e = w.s.get("delete_error", {}).get(w.gvr(x))
        if e: return self.status(e[0], e[1], e[2], name=m["name"], kind=x["resource"])
        for field in ("uid", "resourceVersion"):
            if pre.get(field) is not None and pre[field] != m.get(field):
                return self.status(409, "Conflict", f"precondition failed: {field} {pre[field]} != {m.get(field)}", name=m["name"], kind=x["resource"])
        policy = body.get("propagationPolicy")
        w.notes.append(f"DELETE {x['kind']}/{m['name']} policy={policy} preconditions={sorted(pre)} grace={body.get('gracePeriodSeconds')}")
        if self.q.get("dryRun") or body.get("dryRun"): return self.answer(200, self.shown(x, o))
        held = list(m.get("finalizers") or [])
        if policy == "Foreground" and "foregroundDeletion" not in held: held.append("foregroundDeletion")
        if policy == "Orphan" and "orphan" not in held: held.append("orphan")
        if w.gvr(x) in w.s.get("delete_async", []):
            m.setdefault("deletionTimestamp", now()); w.changed(key, "MODIFIED", o)
            return self.status(200, "", "", name=m["name"], kind=x["resource"])
        # A real server keeps a namespace until its content is gone: spec.finalizers holds it, metadata.finalizers is empty.
        if held or x["resource"] == "namespaces":
            m.setdefault("deletionTimestamp", now())
            if held: m["finalizers"] = held
            w.changed(key, "MODIFIED", o)
            return self.answer(200, self.shown(x, o))
        del w.objects[key]; w.changed(key, "DELETED", o)
        self.status(200, "", "", name=m["name"], kind=x["resource"], uid=m["uid"])
    def patch(self, key, x, o, body):
        w, m, new = self.world, o["metadata"], body.get("metadata") or {}
        if new.get("resourceVersion") not in (None, m["resourceVersion"]):
            return self.status(409, "Conflict", "the object has been modified", name=m["name"], kind=x["resource"])
        w.notes.append(f"PATCH {x['kind']}/{m['name']} {json.dumps(body)[:300]}")
        for field in ("ownerReferences", "finalizers"):
            if field in new: m[field] = new[field] or []
        if "status" in body: o.setdefault("status", {}).update(body["status"])
        self.judge(x, o)
        if m.get("deletionTimestamp") and not m.get("finalizers") and x["resource"] not in ("namespaces", "pods"):
            del w.objects[key]; w.changed(key, "DELETED", o)
        else: w.changed(key, "MODIFIED", o)
        self.answer(200, self.shown(x, o))
    def judge(self, x, o):
        """Foreground deletion must not end while a blocking dependent exists."""
        m, w = o["metadata"], self.world
        if m.get("deletionTimestamp") and "foregroundDeletion" not in (m.get("finalizers") or []):
            for (p, n, name), d in w.objects.items():
                for r in d["metadata"].get("ownerReferences") or []:
                    if r["uid"] == m["uid"] and r.get("blockOwnerDeletion"):
                        w.violations.append(f"foreground deletion of {x['kind']}/{m['name']} ended although {p}/{name} still exists and blocks")
    def event(self, ns):
        w, body = self.world, json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        name = body.get("metadata", {}).get("name", "")
        w.notes.append(f"EVENT {body.get('reason')} about {body.get('involvedObject', {}).get('kind')}/{body.get('involvedObject', {}).get('name')} as {name!r}")
        if len(name) > 253 or not DNS.match(name):
            w.violations.append(f"event with an invalid name {name[:80]!r} ({len(name)} characters): a real API server rejects it")
            return self.status(422, "Invalid", f'Event "{name}" is invalid: metadata.name: Invalid value: a lowercase RFC 1123 subdomain', name=name, kind="Event")
        self.answer(201, body)

if __name__ == "__main__":
    a = argparse.ArgumentParser(); a.add_argument("scenario"); a.add_argument("--port", type=int, default=18080); a.add_argument("--log", default="/dev/null"); a = a.parse_args()
    LOG = open(a.log, "a")
    w = Handler.world = World(json.load(open(a.scenario)))
    signal.alarm(w.s.get("end_after", 0))
    ThreadingHTTPServer.handle_error = lambda *_: None      # a client that closes its connection is no news
    server = ThreadingHTTPServer(("127.0.0.1", a.port), Handler); server.daemon_threads = True
    if "tls" in w.s:
        import ssl
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); tls.load_cert_chain(w.s["tls"]["identity"])
        if "clients" in w.s["tls"]: tls.verify_mode = ssl.CERT_REQUIRED; tls.load_verify_locations(w.s["tls"]["clients"])
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    def end(*_): threading.Thread(target=server.shutdown).start()
    signal.signal(signal.SIGTERM, end); signal.signal(signal.SIGINT, end)
    print(f"serving {a.scenario} at http{'s' if 'tls' in w.s else ''}://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever(0.1)
    print("TCP connections:", len(w.connections)); print("requests:", dict(w.verbs)); print("codes:", dict(w.codes))
    for n in w.notes: print(" ", n)
    print("rules used:", sum(count for key, count in w.seen.items() if key[0] == "rule"))
    print("objects left:", sorted(f"{o['kind']}/{o['metadata']['name']}" + (" (deleting)" if o["metadata"].get("deletionTimestamp") else "") for o in w.objects.values())[:20])
    for v in w.violations: print("VIOLATION:", v)
    print("violations:", len(w.violations))
