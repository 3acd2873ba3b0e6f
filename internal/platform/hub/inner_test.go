package hub

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/wire"
)

// FuzzReadPresentation reads what agents may send. An error never shows it.
func FuzzReadPresentation(f *testing.F) {
	for _, seed := range []string{`{"token":"canary"}`, `{"moved":true}`, `{"token":"canary"`, `{"token":{"canary":1}}`, "", "null", "[]",
		strings.Repeat("canary", maxLine)} {
		f.Add([]byte(seed + "\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reader := bufio.NewReaderSize(bytes.NewReader(text), maxLine)
		for lines := 0; ; lines++ {
			p, err := readAgentMessage(reader)
			if strings.Contains(fmt.Sprint(p, err), "canary") {
				t.Fatalf("it shows what was said: %v, %v", p, err)
			}
			if err != nil {
				return
			}
			if lines > len(text) {
				t.Fatal("it reads more lines than there are")
			}
		}
	})
}

// FuzzCheckPath: what passes is below an allowed prefix, also after it is cleaned.
func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"/app-proxy/x", "/webhooks/a/b", "/workflows/", "/app-proxy/../x", "/app-proxy/./x", "//app-proxy/", "/app-proxy/%2e%2e/x", "/app-proxy/..;/x", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil || checkPath(u.Path) != nil {
			return
		}
		clean := path.Clean(u.Path) + "/"
		for _, prefix := range prefixes() {
			if strings.HasPrefix(clean, prefix) {
				return
			}
		}
		t.Errorf("%q passes and means %q", text, clean)
	})
}

// FuzzPeerRuntime: what replicas hand over is for the runtime that the path names, and
// for a path that begins after it.
func FuzzPeerRuntime(f *testing.F) {
	for _, seed := range []string{"a/app-proxy/x", "/app-proxy/x", "a%2Fb/app-proxy/x", "%61/app-proxy/x", "a/app-proxy/%2e%2e", "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(wire.PeerPath + text)
		if err != nil {
			return
		}
		id, ok := peerRuntime(u)
		if !ok {
			return
		}
		if id == "" || strings.ContainsAny(id, "/%") || !strings.HasPrefix(text, id+"/") {
			t.Errorf("%q is for %q", text, id)
		}
	})
}
