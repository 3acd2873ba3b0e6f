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
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/identity"
)

const (
	// controlFile is the socket in the state folder.
	controlFile = "control.sock"
	// controlBytes bounds the header of a request.
	controlBytes = 4 << 10
	// problemHeader is the trailer with the reason of an aborted backup: its
	// status was already sent.
	problemHeader = "Slipway-Problem"
)

// ErrNotRunning reports that no platform runs with the folder.
var ErrNotRunning = errors.New("no platform runs with this folder")

// ListenControl opens the socket for commands of local users with access to
// the folder. The folder must belong to one platform.
func ListenControl(dir string) (net.Listener, error) {
	folder, path, err := controlPath(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	// A killed process leaves its socket behind. The lock of the database
	// ensures that no other process uses it.
	if err := os.Remove(filepath.Join(dir, controlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket in %s: %w", dir, err)
	}
	// The path goes through /proc and is not valid for unlinking later.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(filepath.Join(dir, controlFile), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), listener.Close())
	}
	return listener, nil
}

// controlPath returns the socket's path through an open folder, because the
// path of a Unix socket is limited to 107 bytes.
func controlPath(dir string) (*os.File, string, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, "", err
	}
	return folder, fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), controlFile), nil
}

// serveControl serves commands until the context is done.
func (p *platform) serveControl(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /backup", p.backup)
	mux.HandleFunc("POST /keys/rotate", p.rotate)
	mux.HandleFunc("POST /users/reset-password", p.resetPassword)
	mux.HandleFunc("POST /users/reset-second-factor", p.resetSecondFactor)
	mux.HandleFunc("POST /users/create-key", p.createKey)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: controlBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, operatorKey{}, peerUser(conn))
		},
		ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("control socket: %w", err)
	case <-ctx.Done():
	}
	_ = server.Close() // readers reject an incomplete backup
	<-served
	return nil
}

// operatorKey is the context key of the local user of a connection.
type operatorKey struct{}

// operator returns the local user who sends a command.
func (p *platform) operator(r *http.Request) identity.System {
	name, _ := r.Context().Value(operatorKey{}).(string)
	return identity.System{Store: p.store, Actor: name}
}

// peerUser returns the user at the other end of a socket. The kernel knows it,
// so that it cannot be forged.
func peerUser(conn net.Conn) string {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return OperatorName(-1)
	}
	uid := -1
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // without credentials the user stays unknown
			uid = peerUID(int(fd))
		})
	}
	return OperatorName(uid)
}

// OperatorName returns the actor in the audit log for a local user.
func OperatorName(uid int) string {
	name := "uid " + strconv.Itoa(uid)
	if known, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = known.Username
	}
	return "command line (" + name + ")"
}

// backup streams a backup. The trailer distinguishes an aborted one from a
// complete one.
func (p *platform) backup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", problemHeader)
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := p.operator(r).Backup(r.Context(), w); err != nil {
		p.Log.Error("backup failed", observe.KeyError, err)
		w.Header().Set(problemHeader, "the backup was aborted; the platform's log has the reason")
	}
}

// rotate creates a new signing key.
func (p *platform) rotate(w http.ResponseWriter, r *http.Request) {
	if err := p.operator(r).RotateKeys(r.Context(), p.signer, r.FormValue("revoke") == "true"); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.Log.Info("signing keys rotated")
}

// resetPassword returns a one-time password for a user.
func (p *platform) resetPassword(w http.ResponseWriter, r *http.Request) {
	if p.SignIn.PasswordsDisabled {
		http.Error(w, identity.NoPasswordsAdvice, http.StatusConflict)
		return
	}
	password, err := p.operator(r).ResetPassword(r.Context(), r.FormValue("email"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.Log.Info("user password reset by command line", "email", r.FormValue("email"))
	_, _ = io.WriteString(w, password.Reveal()) // only the owner can access the socket
}

// resetSecondFactor removes the second factors of a user.
func (p *platform) resetSecondFactor(w http.ResponseWriter, r *http.Request) {
	if err := p.operator(r).ResetSecondFactor(r.Context(), r.FormValue("email")); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.Log.Info("second factor reset by command line", "email", r.FormValue("email"))
}

// createKey creates an API key for a user.
func (p *platform) createKey(w http.ResponseWriter, r *http.Request) {
	life, err := time.ParseDuration(r.FormValue("life"))
	if err != nil {
		http.Error(w, "the life of a key is a duration", http.StatusBadRequest)
		return
	}
	wanted := identity.OperatorKey{Email: r.FormValue("email"), Name: r.FormValue("name"), Scope: r.FormValue("scope"), Life: life}
	key, err := p.operator(r).CreateKey(r.Context(), wanted)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.Log.Info("API key created by command line", "email", wanted.Email, "key", wanted.Name, "scope", wanted.Scope)
	_, _ = io.WriteString(w, key.Reveal()) // only the owner can access the socket
}

// SendCommand sends a command to the platform that runs with a folder and
// copies the response. It returns ErrNotRunning if there is none.
func SendCommand(ctx context.Context, dir, command string, output io.Writer) error {
	folder, path, err := controlPath(dir)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotRunning
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	// One request per process; the socket may be gone afterwards.
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
		return fmt.Errorf("the running platform does not respond: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, controlBytes))
		return fmt.Errorf("the running platform rejected the command: %s", bytes.TrimSpace(text))
	}
	if _, err := io.Copy(output, response.Body); err != nil {
		return fmt.Errorf("the response of the running platform was aborted: %w", err)
	}
	if problem := response.Trailer.Get(problemHeader); problem != "" {
		return errors.New(problem)
	}
	return nil
}
