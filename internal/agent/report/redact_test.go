package report_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/must"
)

// canary is in every place of an Application that may hold a secret.
const canary = "CANARY7h3s3cr3t"

const leakyApplication = `{
  "metadata": {
    "namespace": "argocd", "name": "shop", "uid": "u1",
    "labels": {"team": "shop", "odd": "ghp_CANARY7h3s3cr3tCANARY7h3s3cr3t"},
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"password\":\"CANARY7h3s3cr3t\"}"},
    "ownerReferences": [{"kind": "ApplicationSet", "name": "shops", "controller": true}]
  },
  "spec": {
    "project": "default",
    "sources": [
      {"repoURL": "https://bot:CANARY7h3s3cr3t@git.example.com/shop.git?token=CANARY7h3s3cr3t", "path": "deploy", "targetRevision": "main",
       "helm": {"values": "password: CANARY7h3s3cr3t", "parameters": [{"name": "token", "value": "CANARY7h3s3cr3t"}]}},
      {"repoURL": "CANARY7h3s3cr3t@git.example.com:shop.git"}
    ],
    "destination": {"server": "https://admin:CANARY7h3s3cr3t@cluster.example.com", "namespace": "shop"},
    "info": [{"name": "token", "value": "CANARY7h3s3cr3t"}]
  },
  "status": {
    "sync": {"status": "OutOfSync", "revision": "0123456789012345678901234567890123456789"},
    "health": {"status": "Degraded", "message": "GET https://x:CANARY7h3s3cr3t@git.example.com/a failed"},
    "resources": [{"kind": "Secret", "name": "db"}],
    "conditions": [{"type": "ComparisonError", "message": "authorization: Bearer CANARY7h3s3cr3t was refused"}],
    "operationState": {"phase": "Failed", "message": "env DB_PASSWORD=CANARY7h3s3cr3t is wrong", "startedAt": "2026-01-01T00:00:00Z",
      "finishedAt": "2026-01-01T00:01:00Z", "operation": {"info": [{"name": "a", "value": "CANARY7h3s3cr3t"}]}}
  }
}`

// TestSecretsStay: nothing that is secret leaves the cluster, and the rest does.
func TestSecretsStay(t *testing.T) {
	var app v1alpha1.Application
	must.Do(t, json.Unmarshal([]byte(leakyApplication), &app))
	message := report.Message(&app, "prod", time.Unix(0, 0))
	text := protojson.Format(message)
	if strings.Contains(text, canary) {
		t.Errorf("a secret is told:\n%s", text)
	}
	want := map[string]string{
		"shop": message.GetName(), "default": message.GetProject(), "OutOfSync": message.GetSync(), "Degraded": message.GetHealth(),
		"https://git.example.com/shop.git": message.GetRepoUrls()[0], "deploy": message.GetPath(), "main": message.GetTargetRevision(),
		"https://cluster.example.com": message.GetCluster(), "ApplicationSet/shops": message.GetOwner(), "Failed": message.GetOperationPhase(),
		"GET https://git.example.com/a failed":                   message.GetHealthMessage(),
		"ComparisonError: authorization: [redacted] was refused": message.GetConditions()[0],
		"env DB_PASSWORD=[redacted] is wrong":                    message.GetOperationMessage(),
	}
	for expected, got := range want {
		if got != expected {
			t.Errorf("%q is told as %q", expected, got)
		}
	}
	if message.GetResources() != 1 || message.GetLabels()["team"] != "shop" || message.GetOperationFinishedAt().AsTime().Year() != 2026 {
		t.Errorf("something is not told:\n%s", text)
	}
}

func TestClean(t *testing.T) {
	for given, want := range map[string]string{
		"a plain message: 3 of 5 replicas":                       "a plain message: 3 of 5 replicas",
		"the token of the service account expired":               "the token of the service account expired",
		"secret \"db\" not found":                                "secret \"db\" not found",
		"clone https://u:p@h/r failed, ssh://git@h/r too":        "clone https://h/r failed, ssh://h/r too",
		"url ?access_token=abc&x=1":                              "url ?access_token=[redacted]&x=1",
		`{"password": "hunter2", "user": "me"}`:                  `{"password": "[redacted]", "user": "me"}`,
		"values:\n  password: hunter2\n  user: me":               "values:\n  password: [redacted]\n  user: me",
		"- dbPassword: correct horse\n":                          "- dbPassword: [redacted]\n",
		"{token: abc, user: me}":                                 "{token: [redacted], user: me}",
		`line 3: client_secret: "abc def"`:                       `line 3: client_secret: [redacted]`,
		`in "a: 1\npassword: hunter2\nb: 2"`:                     `in "a: 1\npassword: [redacted]\nb: 2"`,
		"cannot read the token: permission denied":               "cannot read the token: permission denied",
		"secrets \"db\" is forbidden: user has no access":        "secrets \"db\" is forbidden: user has no access",
		"key glpat-abcdefghijklmnop1234 bad":                     "key [redacted] bad",
		"jwt eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0 ": "jwt [redacted] ",
		"slw_abc_def and slwr_id_secret":                         "[redacted] and [redacted]",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE":                  "[redacted]",
		"Basic dXNlcjpwYXNzd29yZA==":                             "Basic [redacted]",
	} {
		if got := report.Clean(given); got != want {
			t.Errorf("%q became %q and not %q", given, got, want)
		}
	}
}

// FuzzClean: what is cleaned stays clean, and is text.
func FuzzClean(f *testing.F) {
	f.Add("https://u:p@h", "x")
	f.Add("password=1 token=\"2\"", "Bearer abcdefghijklmnop")
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + " password=" + canary + " " + after
		got := report.Clean(text)
		if len(text) < 1000 && strings.Contains(got, "password="+canary) {
			t.Errorf("%q became %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q is not text any more", text)
		}
	})
}

// FuzzSegment: no file makes the reader fail in any other way than by an error.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x02\x00\x00\x00\x00\x01{}"))
	whole := report.Segment()
	if waiting, err := report.ReadSegment(whole); waiting != 1 || err != nil {
		f.Fatalf("%d wait: %v", waiting, err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Fuzz(func(t *testing.T, content []byte) {
		if waiting, _ := report.ReadSegment(content); waiting < 0 {
			t.Error("fewer than none wait")
		}
	})
}
