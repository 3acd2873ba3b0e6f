package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com/a/b.git":              "https://example.com/a/b.git",
		"https://user:pass@Example.com:443/a/":     "https://example.com/a/",
		"http://example.com:8080/a":                "http://example.com:8080/a",
		"ssh://git@example.com:2222/a/b":           "ssh://example.com:2222/a/b",
		"git@example.com:a/b.git":                  "ssh://example.com/a/b.git",
		"example.com:a/b":                          "ssh://example.com/a/b",
		"https://[::1]:8443/a":                     "https://[::1]:8443/a",
		"git+ssh://git@example.com/a":              "ssh://example.com/a",
		"https://example.com/with%20space/and.git": "https://example.com/with space/and.git",
	} {
		if got, err := ParseAddress(text); err != nil || got.String() != want {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "x", "https://", "https://example.com", "ftp://example.com/x", "file:///etc/passwd", "/etc/passwd",
		"ext::sh -c id", "git@-oProxyCommand=id:x", "ssh://-oProxyCommand=id/x", "https://example.com/a?b=c", "https://example.com/a#b",
		"git@example.com:-x", "https://exa mple.com/x", "https://example.com/\nx",
	} {
		if got, err := ParseAddress(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestAddressKeys(t *testing.T) {
	same := [][]string{
		{"https://example.com/a/b", "https://example.com/a/b.git", "https://Example.com:443/a/b/", "https://user:x@example.com/a/b.git"},
		{"git@example.com:a/b", "git@EXAMPLE.com:a/b.git"},
		{"ssh://git@example.com/a/b", "ssh://git@example.com:22/a/b.git"},
		{"http://example.com/a/b"},
		{"ssh://other@example.com/a/b"},
		{"https://example.com/A/b"},
	}
	owner := map[string]int{}
	for group, texts := range same {
		for _, text := range texts {
			address, err := ParseAddress(text)
			if err != nil {
				t.Fatal(err)
			}
			if other, found := owner[address.Key()]; found && other != group {
				t.Errorf("%s has the key of another", text)
			}
			owner[address.Key()] = group
		}
	}
	if len(owner) != len(same) {
		t.Errorf("%d keys for %d repositories", len(owner), len(same))
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"https://user:pass@example.com/a", "git@example.com:a", "oci://x", "://@", "a@b@c:d", "https://a:b@c@d/e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		redacted := Redact(text)
		if strings.ContainsAny(redacted, "\n\x00") {
			t.Errorf("%q is shown as %q", text, redacted)
		}
		// The user and the password are between the scheme and the last @ of
		// the host.
		if _, rest, found := strings.Cut(text, "://"); found {
			authority, _, _ := strings.Cut(rest, "/")
			if i := strings.LastIndexByte(authority, '@'); i > 8 && strings.Contains(redacted, authority[:i+1]) {
				t.Errorf("%q is shown as %q", text, redacted)
			}
		}
		_, _ = ParseAddress(text)
	})
}

// FuzzAdvertisement lets any bytes be the answer of a server.
func FuzzAdvertisement(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add(lines("# service=git-upload-pack\n", "", id+" HEAD\x00shallow side-band-64k\n", id+" refs/heads/main\n", id+" refs/tags/v1^{}\n", ""))
	f.Add(lines(id+" HEAD\x00object-format=sha256\n", ""))
	f.Add(lines("ERR access denied\n"))
	f.Add([]byte("zzzz"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		a, err := readAdvertisement(bytes.NewReader(answer), 100)
		var failure *Failure
		if err != nil && !errors.As(err, &failure) && !errors.Is(err, io.EOF) {
			t.Errorf("the error is %T %v", err, err)
		}
		if err == nil && len(a.Refs) > 100 {
			t.Errorf("%d refs", len(a.Refs))
		}
	})
}

// lines writes lines of the protocol; an empty one is a flush.
func lines(texts ...string) []byte {
	var out bytes.Buffer
	encoder := pktline.NewEncoder(&out)
	for _, text := range texts {
		if text == "" {
			_ = encoder.Flush()
			continue
		}
		_ = encoder.EncodeString(text)
	}
	return out.Bytes()
}

// FuzzReadPack lets any bytes be the answer to a fetch.
func FuzzReadPack(f *testing.F) {
	f.Add(lines("shallow "+strings.Repeat("ab", 20)+"\n", "", "NAK\n", "\x01PACK", "\x02progress", ""))
	f.Add(lines("", "ACK "+strings.Repeat("ab", 20)+" common\n", "ACK "+strings.Repeat("ab", 20)+"\n", "\x03broken"))
	f.Add([]byte("0008NAK\n"))
	a := &Advertisement{capabilities: map[string]bool{"shallow": true, "side-band-64k": true}}
	f.Fuzz(func(t *testing.T, answer []byte) {
		pack, err := Want{Depth: 1}.readPack(bytes.NewReader(answer), a)
		if err != nil {
			return
		}
		if n, _ := io.Copy(io.Discard, pack); n > int64(len(answer)) {
			t.Errorf("%d bytes of %d", n, len(answer))
		}
	})
}

func TestRequest(t *testing.T) {
	one, two := ID{1}, ID{2}
	all := &Advertisement{capabilities: map[string]bool{"shallow": true, "side-band-64k": true, "thin-pack": true, "multi_ack_detailed": true, "ofs-delta": true, "no-progress": true}}
	got, err := Want{IDs: []ID{one}, Depth: 1, Haves: []ID{two}}.request(all)
	want := lines("want "+one.String()+" multi_ack_detailed side-band-64k ofs-delta no-progress thin-pack\n",
		"shallow "+two.String()+"\n", "deepen 1\n", "", "have "+two.String()+"\n", "done\n")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s\n%v", got, want, err)
	}
	got, err = Want{IDs: []ID{one, two}, Depth: 1}.request(&Advertisement{})
	want = lines("want "+one.String()+"\n", "want "+two.String()+"\n", "", "done\n")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s\n%v", got, want, err)
	}
}

func TestNoProxy(t *testing.T) {
	p := &proxySettings{noProxy: "example.com, .internal,*.svc,10.0.0.0/8,host:8443"}
	for host, want := range map[string]bool{
		"example.com:443": true, "a.example.com": true, "example.com.evil.test": false, "notexample.com": false,
		"x.internal": true, "a.svc:80": true, "10.1.2.3:22": true, "11.1.2.3:22": false, "host:8443": true, "host:443": false,
	} {
		if got := p.bypasses(host); got != want {
			t.Errorf("%s is exempt: %t", host, got)
		}
	}
	if all := (&proxySettings{noProxy: "*"}); !all.bypasses("anything:1") {
		t.Error("a star does not exempt all")
	}
}

// SSH goes through an HTTP proxy by CONNECT. What the server responds at once
// arrives whole.
func TestConnectThroughProxy(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	go func() {
		connection, err := target.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(connection, "SSH-2.0-test\r\n")
		_ = connection.Close()
	}()
	var login string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		login = r.Header.Get("Proxy-Authorization")
		through, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\n\r\n")
		_, _ = io.Copy(connection, through)
		_ = connection.Close()
	}))
	t.Cleanup(proxy.Close)
	p, err := proxyFor(credential.Credential{Proxy: secret.New(strings.Replace(proxy.URL, "http://", "http://ada:secret@", 1))})
	if err != nil {
		t.Fatal(err)
	}
	connection, err := p.dial(context.Background(), target.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if said, err := io.ReadAll(connection); err != nil || string(said) != "SSH-2.0-test\r\n" {
		t.Errorf("said %q, %v", said, err)
	}
	if login == "" {
		t.Error("the proxy was not told who asks")
	}
	refused := &proxySettings{url: p.url}
	if _, err := refused.dial(context.Background(), "127.0.0.1:1"); err == nil || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("the error is %v", err)
	}
}
