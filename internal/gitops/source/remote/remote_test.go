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

// FuzzAdvertisement lets any bytes be the response of a server.
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

// FuzzReadPack lets any bytes be the response to a fetch.
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
	connection, err := p.dial(context.Background(), nil, target.Addr().String())
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
	if _, err := refused.dial(context.Background(), nil, "127.0.0.1:1"); err == nil || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("the error is %v", err)
	}
}
