package source_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/secret"
)

const password = "s3cr3t-p4ssw0rd"

func trust(server *gittest.Server) func(*credential.Store) {
	return func(b *credential.Store) {
		b.SetCertificateAuthorities(map[string]string{"127.0.0.1": server.CertificateAuthority()})
	}
}

func TestHTTPSWithBasicAuth(t *testing.T) {
	server, repository := demo(t, gittest.TLS(), gittest.BasicAuth("ada", password))
	right := credential.Credential{URL: repository.URL(), Username: "ada", Password: secret.New(password)}
	got := resolve(t, open(t, with(right, trust(server))), repository.URL(), "main")
	if read(t, got.Store, "README") != "hello" {
		t.Error("another content")
	}
	inAddress := strings.Replace(repository.URL(), "https://", "https://ada:"+password+"@", 1)
	_, err := project.Unlimited("team").Admit(v1alpha1.ApplicationSource{RepoURL: inAddress})
	if err == nil || !strings.Contains(err.Error(), "Secret") {
		t.Errorf("a password in the address: %v", err)
	}
	hidden(t, "in the address", err)

	wrong := right
	wrong.Password = secret.New("wrong-" + password)
	for name, tt := range map[string]struct {
		options func(*source.Options)
		url     string
		words   string
	}{
		"another password": {with(wrong, trust(server)), repository.URL(), "check the user"},
		"none":             {with(credential.Credential{URL: "https://other.example.com/x"}, trust(server)), repository.URL(), "add a Secret"},
	} {
		_, err := open(t, tt.options).Resolve(t.Context(), at(tt.url, "main"), 0)
		wantError(t, err, source.Denied, tt.words)
		hidden(t, name, err)
	}
}

// hidden fails when an error shows a password or a user, in any way of
// printing.
func hidden(t *testing.T, name string, err error) {
	t.Helper()
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err)} {
		if strings.Contains(text, password) || strings.Contains(text, "ada:") || strings.Contains(text, "bob") {
			t.Errorf("%s: the error shows credentials: %s", name, text)
		}
	}
}

func TestHTTPSWithToken(t *testing.T) {
	server, repository := demo(t, gittest.TLS(), gittest.BearerToken(password))
	right := credential.Credential{URL: repository.URL(), BearerToken: secret.New(password)}
	resolve(t, open(t, with(right, trust(server))), repository.URL(), "main")
	right.BearerToken = secret.New("other")
	_, err := open(t, with(right, trust(server))).Resolve(t.Context(), at(repository.URL(), "main"), 0)
	wantError(t, err, source.Denied)
}

func TestCertificateAuthority(t *testing.T) {
	_, repository := demo(t, gittest.TLS())
	_, err := open(t).Resolve(t.Context(), at(repository.URL(), "main"), 0)
	wantError(t, err, source.Denied, "unknown authority", "argocd-tls-certs-cm")
	resolve(t, open(t, with(credential.Credential{URL: repository.URL(), Insecure: true})), repository.URL(), "main")

	other := gittest.Serve(t, gittest.TLS())
	broken := func(b *credential.Store) {
		b.SetCertificateAuthorities(map[string]string{"127.0.0.1": "no certificate"})
	}
	_, err = open(t, with(credential.Credential{URL: repository.URL()}, broken)).Resolve(t.Context(), at(repository.URL(), "main"), 0)
	wantError(t, err, source.Invalid, "PEM")
	_ = other
}

func TestClientCertificate(t *testing.T) {
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{"client"}, Authority: true})
	_, repository := demo(t)
	backend, err := url.Parse(repository.URL())
	must(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forward(t, w, r, backend.Host)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pair.Pool()}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	address := strings.Replace(repository.URL(), "http://"+backend.Host, server.URL, 1)
	known := func(b *credential.Store) {
		b.SetCertificateAuthorities(map[string]string{"127.0.0.1": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))})
	}
	c := credential.Credential{URL: address}
	_, err = open(t, with(c, known)).Resolve(t.Context(), at(address, "main"), 0)
	if err == nil {
		t.Fatal("let in without a certificate")
	}
	c.ClientCertificate, c.ClientKey = pair.Chain, secret.New(pair.Key)
	resolve(t, open(t, with(c, known)), address, "main")
}

// forward passes a request on to another server.
func forward(t *testing.T, w http.ResponseWriter, r *http.Request, host string) {
	target := *r.URL
	target.Scheme, target.Host = "http", host
	request, err := http.NewRequestWithContext(r.Context(), r.Method, target.String(), r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	request.Header, request.ContentLength = r.Header.Clone(), r.ContentLength
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}

// A proxy sees all requests, unless the host is exempt; its password is not
// shown.
func TestProxy(t *testing.T) {
	_, repository := demo(t)
	var seen atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		forward(t, w, r, r.URL.Host)
	}))
	t.Cleanup(proxy.Close)
	c := credential.Credential{URL: repository.URL(), Proxy: secret.New(proxy.URL)}
	resolve(t, open(t, with(c)), repository.URL(), "main")
	if seen.Load() != 2 {
		t.Errorf("the proxy saw %d requests", seen.Load())
	}
	c.NoProxy = "example.com,127.0.0.0/8"
	resolve(t, open(t, with(c)), repository.URL(), "main")
	if seen.Load() != 2 {
		t.Errorf("the proxy saw %d requests", seen.Load())
	}
	c.NoProxy, c.Proxy = "", secret.New("http://ada:"+password+"@127.0.0.1:1")
	_, err := open(t, with(c)).Resolve(t.Context(), at(repository.URL(), "main"), 0)
	wantError(t, err, source.Unreachable)
	hidden(t, "proxy", err)
}

func sshCredential(server *gittest.Server, repository *gittest.Repository) credential.Credential {
	return credential.Credential{URL: repository.URL(), SSHPrivateKey: secret.New(server.PrivateKey())}
}

func hosts(lines string) func(*credential.Store) {
	return func(b *credential.Store) { b.SetKnownHosts([]byte(lines)) }
}

func TestSSH(t *testing.T) {
	server := gittest.ServeSSH(t)
	repository := server.Repository(t, "demo", map[string]string{"README": "hello"})
	s := open(t, with(sshCredential(server, repository), hosts(server.KnownHosts())))
	if got := resolve(t, s, repository.URL(), "main"); read(t, got.Store, "README") != "hello" {
		t.Error("another content")
	}
	second := repository.Commit(t, map[string]string{"README": "second"}, "second")
	if got := resolve(t, s, repository.URL(), "HEAD"); got.Revision != second || read(t, got.Store, "README") != "second" {
		t.Errorf("got %s", got.Revision)
	}
	missing := strings.Replace(repository.URL(), "demo.git", "other.git", 1)
	c := sshCredential(server, repository)
	c.URL = missing
	_, err := open(t, with(c, hosts(server.KnownHosts()))).Resolve(t.Context(), at(missing, "main"), 0)
	wantError(t, err, source.NotFound)
}

func TestSSHHostsArePinned(t *testing.T) {
	server, other := gittest.ServeSSH(t), gittest.ServeSSH(t)
	repository := server.Repository(t, "demo", map[string]string{"README": "hello"})
	right := sshCredential(server, repository)
	// The line of one host with the key of another.
	mixed := strings.Fields(server.KnownHosts())[0] + " " + strings.Join(strings.Fields(other.KnownHosts())[1:], " ") + "\n"
	stranger := right
	stranger.SSHPrivateKey = secret.New(other.PrivateKey())
	none := right
	none.SSHPrivateKey = secret.Text{}
	ignoring := right
	ignoring.InsecureIgnoreHostKey = true
	for _, tt := range []struct {
		name       string
		credential credential.Credential
		known      string
		kind       source.ErrorKind
		words      string
	}{
		{"unknown host", right, "", source.Denied, "argocd-ssh-known-hosts-cm"},
		{"another key of the host", right, mixed, source.Denied, "another key"},
		{"key of a stranger", stranger, server.KnownHosts(), source.Denied, "does not let this SSH key in"},
		{"no key", none, server.KnownHosts(), source.Denied, "sshPrivateKey"},
		{"known hosts that are none", right, "nonsense", source.Invalid, "ssh-keyscan"},
		{"host ignored", ignoring, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := open(t, with(tt.credential, hosts(tt.known))).Resolve(t.Context(), at(repository.URL(), "main"), 0)
			if tt.kind == "" {
				must(t, err)
				return
			}
			wantError(t, err, tt.kind, tt.words)
		})
	}
}

// What a server does wrong is Unreachable, soon, and takes nothing away.
func TestServerTrouble(t *testing.T) {
	html := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>sign in</html>")
	})
	garbage := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, "zzzz this is not a list of refs")
	})
	cut := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000004895dcfa3633004da0049d3d0fa03f80589cbcaf31 refs/hea")
	})
	failing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for name, trouble := range map[string]func(s *gittest.Server){
		"down":          func(s *gittest.Server) { s.SetDown(true) },
		"slow":          func(s *gittest.Server) { s.SetDelay(time.Hour) },
		"a page":        func(s *gittest.Server) { s.SetHandler(html) },
		"garbage":       func(s *gittest.Server) { s.SetHandler(garbage) },
		"cut off":       func(s *gittest.Server) { s.SetHandler(cut) },
		"failing":       func(s *gittest.Server) { s.SetHandler(failing) },
		"endless reply": func(s *gittest.Server) { s.SetHandler(endless()) },
	} {
		t.Run(name, func(t *testing.T) {
			server, repository := demo(t)
			s := open(t, func(o *source.Options) { o.FetchTimeout, o.Limits.Refs = 2*time.Second, 1000 })
			before := resolve(t, s, repository.URL(), "main")
			trouble(server)
			began := time.Now()
			_, err := s.Resolve(t.Context(), at(repository.URL(), "main"), 0)
			if !source.IsKind(err, source.Unreachable) && (name != "endless reply" || !source.IsKind(err, source.Refused)) {
				t.Errorf("the error is %v", err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			// The last result is still there for callers that accept its age.
			last, err := s.Resolve(t.Context(), at(repository.URL(), "main"), time.Hour)
			if err != nil || last.Revision != before.Revision || read(t, last.Store, "README") != "hello" {
				t.Errorf("the last answer is %v, %v", last, err)
			}
			server.SetDown(false)
			server.SetDelay(0)
			server.SetHandler(nil)
			resolve(t, s, repository.URL(), "main")
		})
	}
}

// endless lists refs without an end.
func endless() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000")
		for i := 0; r.Context().Err() == nil; i++ {
			line := fmt.Sprintf("%040x refs/heads/%d\n", i+1, i)
			if _, err := fmt.Fprintf(w, "%04x%s", len(line)+4, line); err != nil {
				return
			}
		}
	})
}

func TestUnreachableSSH(t *testing.T) {
	server := gittest.ServeSSH(t)
	repository := server.Repository(t, "demo", map[string]string{"README": "hello"})
	// It takes the connection and sends nothing.
	server.SetDelay(time.Hour)
	s := open(t, with(sshCredential(server, repository), hosts(server.KnownHosts())), func(o *source.Options) { o.FetchTimeout = time.Second })
	began := time.Now()
	_, err := s.Resolve(t.Context(), at(repository.URL(), "main"), 0)
	wantError(t, err, source.Unreachable, "in time")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	closed := listener.Addr().String()
	must(t, listener.Close())
	_, err = open(t).Resolve(t.Context(), at("http://"+closed+"/demo.git", "main"), 0)
	wantError(t, err, source.Unreachable, "connection")
}

// Credentials do not follow a redirect to another host.
func TestRedirectToAnotherHost(t *testing.T) {
	_, repository := demo(t)
	backend, err := url.Parse(repository.URL())
	must(t, err)
	var told atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			told.Store(true)
		}
		forward(t, w, r, backend.Host)
	}))
	t.Cleanup(other.Close)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	t.Cleanup(front.Close)
	address := front.URL + backend.Path
	c := credential.Credential{URL: address, Username: "ada", Password: secret.New(password)}
	resolve(t, open(t, with(c)), address, "main")
	if told.Load() {
		t.Error("the other host was told the password")
	}
}
