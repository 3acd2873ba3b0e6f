package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/identity"
)

const (
	// controlFile is the socket in the state folder.
	controlFile = "control.sock"
	// controlBytes bounds the head of a request.
	controlBytes = 4 << 10
	// problemHeader is the trailer that says why a backup broke off.
	problemHeader = "Slipway-Problem"
)

// ErrNotRunning says that no platform has the folder.
var ErrNotRunning = errors.New("no platform runs with this folder")

// ListenControl opens the socket for commands of whoever may read the folder. The
// folder must be the platform's alone.
func ListenControl(dir string) (net.Listener, error) {
	folder, path, err := controlPath(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	// What a process left behind that was killed; the lock of the database tells that
	// it is gone.
	if err := os.Remove(filepath.Join(dir, controlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the socket for commands: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("the socket for commands in %s: %w", dir, err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(filepath.Join(dir, controlFile), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("the socket for commands: %w", err), listener.Close())
	}
	return listener, nil
}

// controlPath names the socket through an open folder, because the name of a socket
// may have 107 bytes only.
func controlPath(dir string) (*os.File, string, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, "", err
	}
	return folder, fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), controlFile), nil
}

// serveControl does what commands ask for.
func (p *parts) serveControl(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /backup", p.backup)
	mux.HandleFunc("POST /keys/rotate", p.rotate)
	mux.HandleFunc("POST /users/reset-password", p.resetPassword)
	mux.HandleFunc("POST /users/create-key", p.createKey)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: controlBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("the socket for commands: %w", err)
	case <-ctx.Done():
	}
	_ = server.Close() // a backup that is not complete is refused by its reader
	<-served
	return nil
}

// backup streams everything. A trailer tells a break from an end.
func (p *parts) backup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", problemHeader)
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := p.store.Backup(r.Context(), w); err != nil {
		p.Log.Error("a backup failed", observe.KeyError, err)
		w.Header().Set(problemHeader, "the backup broke off; the platform's log says why")
	}
}

func (p *parts) rotate(w http.ResponseWriter, r *http.Request) {
	if err := p.signer.Rotate(r.Context(), r.FormValue("revoke") == "true"); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.Log.Info("the signing keys were rotated")
}

func (p *parts) resetPassword(w http.ResponseWriter, r *http.Request) {
	password, err := identity.ResetPassword(r.Context(), p.store, r.FormValue("email"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.Log.Info("the password of a user was reset on the command line", "email", r.FormValue("email"))
	_, _ = io.WriteString(w, password.Reveal()) // the socket is the owner's alone
}

func (p *parts) createKey(w http.ResponseWriter, r *http.Request) {
	life, err := time.ParseDuration(r.FormValue("life"))
	if err != nil {
		http.Error(w, "the life of a key is a duration", http.StatusBadRequest)
		return
	}
	wanted := identity.OperatorKey{Email: r.FormValue("email"), Name: r.FormValue("name"), Scope: r.FormValue("scope"), Life: life}
	key, err := identity.CreateOperatorKey(r.Context(), p.store, wanted)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.Log.Info("an API key was made on the command line", "email", wanted.Email, "key", wanted.Name, "scope", wanted.Scope)
	_, _ = io.WriteString(w, key.Reveal()) // the socket is the owner's alone
}

// AskRunning sends a command to the platform that runs with a folder, and copies
// its answer. ErrNotRunning is when there is none.
func AskRunning(ctx context.Context, dir, command string, answer io.Writer) error {
	folder, path, err := controlPath(dir)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotRunning
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		connection, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, errors.Join(ErrNotRunning, err)
		}
		return connection, nil
	}}
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://platform"+command, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if errors.Is(err, ErrNotRunning) {
		return ErrNotRunning
	}
	if err != nil {
		return fmt.Errorf("the running platform does not answer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, controlBytes))
		return fmt.Errorf("the running platform refuses: %s", bytes.TrimSpace(text))
	}
	if _, err := io.Copy(answer, response.Body); err != nil {
		return fmt.Errorf("the answer of the running platform broke off: %w", err)
	}
	if problem := response.Trailer.Get(problemHeader); problem != "" {
		return errors.New(problem)
	}
	return nil
}
