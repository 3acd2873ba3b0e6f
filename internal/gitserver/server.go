package gitserver

import (
	"context"
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
	"time"
)

const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
	// maxAtOnce bounds the processes of git that run at a time.
	maxAtOnce     = 8
	headerTimeout = 10 * time.Second
	// requestTimeout is for a clone or a push of the largest size.
	requestTimeout = 2 * time.Minute
	idleTimeout    = time.Minute
	maxHeaderBytes = 32 << 10
	stopTimeout    = 2 * time.Second
)

// Options say what is served.
type Options struct {
	// Dir is the bare repository. Its name is its address: /demo.git.
	Dir string
	// Pushed is told what a push has changed. It must not wait.
	Pushed func([]Change)
	// Log gets what git says of failures.
	Log io.Writer
}

// Server serves a repository until it is closed.
type Server struct {
	git     Git
	options Options
	backend http.Handler
	// running has a place for each process; pushing has one.
	running, pushing chan struct{}
	web              *http.Server
	ended            chan struct{}
}

// Serve begins to serve a repository, and returns at once. It closes the
// listener.
func (g Git) Serve(listener net.Listener, options Options) *Server {
	s := &Server{
		git: g, options: options,
		backend: &cgi.Handler{
			Path:   g.backend,
			Env:    append(environment(options.Dir), "GIT_PROJECT_ROOT="+filepath.Dir(options.Dir), "GIT_HTTP_EXPORT_ALL=1"),
			Stderr: options.Log, Logger: log.New(options.Log, "", log.LstdFlags),
		},
		running: make(chan struct{}, maxAtOnce), pushing: make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	s.web = &http.Server{
		Handler:           http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serve)),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(options.Log, "", log.LstdFlags),
	}
	go func() {
		defer close(s.ended)
		if err := s.web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(options.Log, "the Git server ended: %v\n", err)
		}
	}()
	return s
}

// Close ends the server. What runs gets a moment to end.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := s.web.Shutdown(ctx)
	if err != nil {
		err = s.web.Close()
	}
	<-s.ended
	return err
}

// serve lets fetching and pushing through, and nothing else.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !isLoopback(r.Host) {
		http.Error(w, "this repository is for programs on this machine, by the address 127.0.0.1", http.StatusForbidden)
		return
	}
	service, ok := serviceOf(r, "/"+filepath.Base(s.options.Dir))
	if !ok {
		http.Error(w, fmt.Sprintf("there is only a Git repository here: git clone http://%s/%s", r.Host, filepath.Base(s.options.Dir)), http.StatusNotFound)
		return
	}
	release, err := take(r.Context(), s.running)
	if err != nil {
		return // nobody waits for an answer
	}
	defer release()
	forget, err := s.measure(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	defer forget()
	if service == receivePack && r.Method == http.MethodPost {
		s.push(w, r)
		return
	}
	s.backend.ServeHTTP(w, r)
}

// serviceOf tells what a request asks for. The addresses are compared as they
// were sent, so that no other spelling of one gets through.
func serviceOf(r *http.Request, repository string) (string, bool) {
	for _, service := range []string{uploadPack, receivePack} {
		asked := r.URL.EscapedPath()
		if r.Method == http.MethodGet && asked == repository+"/info/refs" && r.URL.RawQuery == "service="+service {
			return service, true
		}
		if r.Method == http.MethodPost && asked == repository+"/"+service && r.URL.RawQuery == "" {
			return service, true
		}
	}
	return "", false
}

// isLoopback refuses the names of others: a page of another host whose name
// leads to this machine could push otherwise.
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

// take takes a place, and gives it back by the function.
func take(ctx context.Context, places chan struct{}) (func(), error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// measure gives a body of unknown length a length, which CGI needs: git sends
// larger pushes in chunks. The function deletes what was kept for it.
func (s *Server) measure(w http.ResponseWriter, r *http.Request) (func(), error) {
	body := http.MaxBytesReader(w, r.Body, maxPush)
	r.Body = body
	if r.ContentLength > maxPush {
		return nil, fmt.Errorf("a push may have %d MiB here", maxPush>>20)
	}
	if r.ContentLength >= 0 {
		return func() {}, nil
	}
	kept, err := os.CreateTemp(filepath.Dir(s.options.Dir), "push-")
	if err != nil {
		return nil, err
	}
	forget := func() { _ = errors.Join(kept.Close(), os.Remove(kept.Name())) }
	size, err := io.Copy(kept, body)
	if err == nil {
		_, err = kept.Seek(0, io.SeekStart)
	}
	if err != nil {
		forget()
		return nil, fmt.Errorf("read the push: %w", err)
	}
	r.Body, r.ContentLength, r.TransferEncoding = kept, size, nil
	return forget, nil
}

// push has Git take a push, and tells what it has changed. What Git has is the
// truth, whatever became of the answer.
func (s *Server) push(w http.ResponseWriter, r *http.Request) {
	release, err := take(r.Context(), s.pushing)
	if err != nil {
		return
	}
	defer release()
	known := context.WithoutCancel(r.Context())
	before, err := s.git.references(known, s.options.Dir)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.backend.ServeHTTP(w, r)
	after, err := s.git.references(known, s.options.Dir)
	if err != nil {
		fmt.Fprintf(s.options.Log, "a push is not told: %v\n", err)
		return
	}
	if changed := changes(before, after); len(changed) > 0 && s.options.Pushed != nil {
		s.options.Pushed(changed)
	}
}
