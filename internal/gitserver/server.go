package gitserver

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
	// maxConcurrent bounds concurrent git processes.
	maxConcurrent = 8
	headerTimeout = 10 * time.Second
	// requestTimeout allows a clone or push of the maximum size.
	requestTimeout = 2 * time.Minute
	idleTimeout    = time.Minute
	maxHeaderBytes = 32 << 10
	stopTimeout    = 2 * time.Second
)

// Options configures a server.
type Options struct {
	// Dir has the bare repositories. Their names are their paths in the URL:
	// /demo.git.
	Dir string
	// Repositories are the passwords by name of a repository. An empty one
	// makes it open to every user of the machine; others are not served.
	Repositories map[string]string
	// Pushed is called with the changes of a push to a repository. It must not
	// block.
	Pushed func(repository string, changes []Change)
	// Log receives errors of git and the server.
	Log io.Writer
}

// Server serves repositories until it is closed.
type Server struct {
	git     Git
	options Options
	backend http.Handler
	// running is a semaphore of git processes; pushing serializes pushes.
	running, pushing chan struct{}
	web              *http.Server
	serving          sync.WaitGroup
}

// Serve starts serving repositories and returns immediately. It closes the
// listeners at the end.
func (g Git) Serve(options Options, listeners ...net.Listener) *Server {
	s := &Server{
		git: g, options: options,
		backend: &cgi.Handler{
			Path:   g.backend,
			Env:    append(environment(options.Dir), "GIT_PROJECT_ROOT="+options.Dir, "GIT_HTTP_EXPORT_ALL=1"),
			Stderr: options.Log, Logger: log.New(options.Log, "", log.LstdFlags),
		},
		running: make(chan struct{}, maxConcurrent), pushing: make(chan struct{}, 1),
	}
	s.web = &http.Server{
		Handler:           http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serve)),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(options.Log, "", log.LstdFlags),
	}
	for _, listener := range listeners {
		s.serving.Go(func() {
			if err := s.web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				fmt.Fprintf(options.Log, "git server stopped: %v\n", err)
			}
		})
	}
	return s
}

// Close shuts down the server. Requests in flight have stopTimeout to
// complete.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := s.web.Shutdown(ctx)
	if err != nil {
		err = s.web.Close()
	}
	s.serving.Wait()
	return err
}

// serve passes fetches and pushes to git and rejects everything else.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !isLoopback(r.Host) {
		http.Error(w, "these repositories are for programs on this machine, by the address 127.0.0.1", http.StatusForbidden)
		return
	}
	// Everything but the smart protocol is hidden: the dumb protocol would
	// expose all files of the repository.
	repository, service := s.find(r)
	if service == "" {
		http.Error(w, "there are only Git repositories here: git clone http://"+r.Host+"/NAME.git", http.StatusNotFound)
		return
	}
	if !s.admits(r, repository) {
		w.Header().Set("WWW-Authenticate", `Basic realm="slipway"`)
		http.Error(w, "this repository needs a password", http.StatusUnauthorized)
		return
	}
	// The context ends the wait when the client disconnects.
	release, err := acquire(r.Context(), s.running)
	if err != nil {
		return // the client is gone
	}
	defer release()
	cleanup, err := s.measure(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	defer cleanup()
	if service == receivePack && r.Method == http.MethodPost {
		s.push(w, r, repository)
		return
	}
	s.backend.ServeHTTP(w, r)
}

// find returns the repository and the Git service of a request; both are empty
// for any other request.
func (s *Server) find(r *http.Request) (repository, service string) {
	for name := range s.options.Repositories {
		if service, ok := serviceOf(r, "/"+name); ok {
			return name, service
		}
	}
	return "", ""
}

// admits compares the password of a request. The user name does not matter: a
// repository has one password.
func (s *Server) admits(r *http.Request, repository string) bool {
	want := s.options.Repositories[repository]
	_, given, _ := r.BasicAuth()
	return want == "" || subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// serviceOf returns the Git service of a request (gitprotocol-http). Paths
// are compared unescaped, so that no other spelling passes.
func serviceOf(r *http.Request, repository string) (string, bool) {
	for _, service := range []string{uploadPack, receivePack} {
		path := r.URL.EscapedPath()
		if r.Method == http.MethodGet && path == repository+"/info/refs" && r.URL.RawQuery == "service="+service {
			return service, true
		}
		if r.Method == http.MethodPost && path == repository+"/"+service && r.URL.RawQuery == "" {
			return service, true
		}
	}
	return "", false
}

// isLoopback checks the Host header against DNS rebinding: a web page on a
// host that resolves to this machine could push otherwise.
func isLoopback(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && address.IsLoopback()
}

// acquire waits for a place of the semaphore; the function releases it.
func acquire(ctx context.Context, places chan struct{}) (func(), error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// measure sets the Content-Length of a chunked body, which CGI requires: git
// sends larger pushes chunked. The body is spooled to a file that the
// function deletes.
func (s *Server) measure(w http.ResponseWriter, r *http.Request) (func(), error) {
	body := http.MaxBytesReader(w, r.Body, maxPush)
	r.Body = body
	if r.ContentLength > maxPush {
		return nil, fmt.Errorf("a push is limited to %d MiB", maxPush>>20)
	}
	// A known length needs no spooling.
	if r.ContentLength >= 0 {
		return func() {}, nil
	}
	spool, err := os.CreateTemp(s.options.Dir, "push-")
	if err != nil {
		return nil, err
	}
	cleanup := func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }
	size, err := io.Copy(spool, body)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		cleanup()
		return nil, fmt.Errorf("read push: %w", err)
	}
	r.Body, r.ContentLength, r.TransferEncoding = spool, size, nil
	return cleanup, nil
}

// push passes a push to git and reports its changes. The references are
// compared before and after, because git is authoritative, even if the
// response was lost.
func (s *Server) push(w http.ResponseWriter, r *http.Request, repository string) {
	dir := filepath.Join(s.options.Dir, repository)
	release, err := acquire(r.Context(), s.pushing)
	if err != nil {
		return
	}
	defer release()
	detached := context.WithoutCancel(r.Context())
	// The comparison must complete even if the client disconnects, so the
	// context is detached.
	before, err := s.git.references(detached, dir)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.backend.ServeHTTP(w, r)
	after, err := s.git.references(detached, dir)
	if err != nil {
		fmt.Fprintf(s.options.Log, "reporting a push failed: %v\n", err)
		return
	}
	if changed := changes(before, after); len(changed) > 0 && s.options.Pushed != nil {
		s.options.Pushed(repository, changed)
	}
}
