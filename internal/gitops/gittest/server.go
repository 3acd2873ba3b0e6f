package gittest

import (
	"context"
	"encoding/pem"
	"fmt"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server serves the repositories below a folder. Its methods are safe for
// concurrent use with requests: mu guards the switches.
type Server struct {
	root string
	// address makes the address of a repository of its folder's name.
	address func(folder string) string

	web *httptest.Server // nil for SSH
	ssh *sshServer       // nil for HTTP

	mu       sync.Mutex
	down     bool
	delay    time.Duration
	handler  http.Handler
	gate     chan struct{}
	requests []string
	pushers  []string // the password of each push
	lfs      map[string]string
	ended    context.Context
}

// receivePack is in the address of every request of a push.
const receivePack = "git-receive-pack"

// Option changes how a server is reached.
type Option func(*settings)

// settings is what the Options of a server set.
type settings struct {
	user, password, token string
	tls                   bool
	// tokens are those of repositories that require one of their own.
	tokens map[string][]string
	// more are passwords beside the one of the user; true may push.
	more map[string]bool
}

// BasicAuth lets only this user in.
func BasicAuth(user, password string) Option {
	return func(s *settings) { s.user, s.password = user, password }
}

// MorePasswords lets the user of [BasicAuth] in with these passwords, too: as a
// Git host does with the tokens of its users. Those with false may only read.
func MorePasswords(more map[string]bool) Option {
	return func(s *settings) { s.more = more }
}

// BearerToken lets only requests with this token in.
func BearerToken(token string) Option {
	return func(s *settings) { s.token = token }
}

// RepositoryTokens lets only requests with one of these tokens read a
// repository. Others do not even learn that it is there.
func RepositoryTokens(name string, tokens ...string) Option {
	return func(s *settings) {
		if s.tokens == nil {
			s.tokens = map[string][]string{}
		}
		s.tokens[name] = tokens
	}
}

// TLS serves https with a certificate of an authority of its own: see
// [Server.CertificateAuthority].
func TLS() Option { return func(s *settings) { s.tls = true } }

// Serve starts git-http-backend behind an HTTP server: the smart protocol,
// fetching and pushing. It ends with the test.
func Serve(t testing.TB, options ...Option) *Server {
	t.Helper()
	var chosen settings
	for _, option := range options {
		option(&chosen)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{root: t.TempDir(), ended: ctx}
	// REMOTE_USER makes git-http-backend accept pushes; the configuration of
	// the user and the machine must not change results.
	backend := &cgi.Handler{
		Path: filepath.Join(execPath(t), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test",
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=" + s.root,
		},
		Stderr: quiet{}, Logger: log.New(quiet{}, "", 0),
	}
	s.web = httptest.NewUnstartedServer(s.handle(chosen, backend))
	// Clients that do not trust the certificate are what tests are about.
	s.web.Config.ErrorLog = log.New(quiet{}, "", 0)
	if chosen.tls {
		s.web.StartTLS()
	} else {
		s.web.Start()
	}
	s.address = func(folder string) string { return s.web.URL + "/" + folder }
	// The context ends first: requests that are held or delayed would block
	// Close.
	t.Cleanup(func() {
		cancel()
		s.web.CloseClientConnections()
		s.web.Close()
	})
	return s
}

// quiet drops the log of git-http-backend about clients that disconnected.
type quiet struct{}

// Write takes everything.
func (quiet) Write(p []byte) (int, error) { return len(p), nil }

// handle puts the switches and the authentication before the backend. The
// switches come before authentication, so that a server that is down does not
// reveal whether the credentials were right.
func (s *Server) handle(chosen settings, backend http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.waitAdmission(r.Context(), r.Method+" "+r.URL.RequestURI()) {
			closeConnection(w)
			return
		}
		if _, password, ok := r.BasicAuth(); ok && strings.HasSuffix(r.URL.Path, receivePack) && chosen.allows(r) {
			s.mu.Lock()
			s.pushers = append(s.pushers, password)
			s.mu.Unlock()
		}
		if !chosen.allows(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="gittest"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		s.mu.Lock()
		handler := s.handler
		s.mu.Unlock()
		switch {
		case handler != nil:
			handler.ServeHTTP(w, r)
		case strings.Contains(r.URL.Path, lfsPath):
			s.serveLFS(w, r)
		default:
			backend.ServeHTTP(w, r)
		}
	})
}

// allows reports whether a request is authenticated.
func (s settings) allows(r *http.Request) bool {
	if s.user != "" {
		user, password, ok := r.BasicAuth()
		pushes, known := s.more[password]
		return ok && user == s.user && (password == s.password || known && (pushes || !strings.Contains(r.URL.String(), receivePack)))
	}
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for name, tokens := range s.tokens {
		if strings.HasPrefix(r.URL.Path, "/"+name+".git/") {
			return slices.Contains(tokens, given)
		}
	}
	return s.token == "" || given == s.token
}

// closeConnection closes the connection without a response.
func closeConnection(w http.ResponseWriter) {
	if hijacker, ok := w.(http.Hijacker); ok {
		if connection, _, err := hijacker.Hijack(); err == nil {
			_ = connection.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// waitAdmission records a request and applies the delay and the hold. It is
// false where the connection is to be closed. The request is recorded before it
// waits, so that a test can see a request that is still held.
func (s *Server) waitAdmission(ctx context.Context, request string) bool {
	s.mu.Lock()
	s.requests = append(s.requests, request)
	down, delay, gate := s.down, s.delay, s.gate
	s.mu.Unlock()
	if down {
		return false
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return false
		case <-s.ended.Done():
			return false
		}
	}
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.ended.Done():
	}
	return false
}

// SetDown makes the server close every connection without a response. Open
// connections are closed too: clients would otherwise reuse them.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	s.down = down
	s.mu.Unlock()
	if down && s.web != nil {
		s.web.CloseClientConnections()
	}
}

// SetDelay delays every response.
func (s *Server) SetDelay(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

// SetHandler replaces Git by another handler; nil brings Git back. It is for a
// server that talks nonsense, and only for HTTP.
func (s *Server) SetHandler(handler http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = handler
}

// Hold makes requests wait until the returned function is called.
func (s *Server) Hold() (release func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	s.gate = gate
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.gate = nil
		s.mu.Unlock()
		close(gate)
	})
}

// Requests is every request so far, as "GET /repo.git/info/refs?service=…". For
// SSH it is "CONNECT" for each connection.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// Pushers is the password of each push so far.
func (s *Server) Pushers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.pushers...)
}

// CertificateAuthority is the PEM text of what a server with [TLS] is trusted
// by. Its certificate is for example.com and the loopback addresses.
func (s *Server) CertificateAuthority() string {
	if s.web == nil || s.web.Certificate() == nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.web.Certificate().Raw}))
}

// execPath is the folder of Git's own programs.
func execPath(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("git is missing: install it, make deps does: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// folder is where the repository of a name is.
func (s *Server) folder(name string) string {
	if !strings.HasSuffix(name, ".git") {
		name += ".git"
	}
	return name
}

// String names the server in messages of tests.
func (s *Server) String() string { return fmt.Sprintf("gittest server at %s", s.address("")) }
