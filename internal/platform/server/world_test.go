package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).watchCtx"))
}

const (
	email = "admin@example.com"
	// patience is how long anything may take on a busy machine.
	patience = time.Minute
)

// platform is a platform that runs in this process.
type platform struct {
	t         *testing.T
	url       string
	dir       string
	database  string
	health    *observe.Health
	logs      *programs.Output
	announced *passwords
	cancel    context.CancelFunc
	ended     chan error
}

// passwords are the announced passwords.
type passwords struct {
	mu   sync.Mutex
	said []string
}

func (p *passwords) announce(email string, password secret.Text) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, email+" "+password.Reveal())
	return nil
}

func (p *passwords) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.said...)
}

// launch runs a platform with a SQLite file of its own, unless the change sets
// another, and waits until it is ready.
func launch(t *testing.T, change ...func(*server.Options)) *platform {
	t.Helper()
	p := begin(t, change...)
	programs.Until(t, "a platform that is ready", func() bool {
		select {
		case err := <-p.ended:
			t.Fatalf("it ended: %v\n%s", err, p.logs)
		default:
		}
		return p.health.Ready()
	})
	return p
}

// begin runs a platform.
func begin(t *testing.T, change ...func(*server.Options)) *platform {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	dir := t.TempDir()
	p := &platform{t: t, dir: dir, health: &observe.Health{}, logs: &programs.Output{}, announced: &passwords{}, ended: make(chan error, 1)}
	options := server.Options{
		Database: secret.New("sqlite://" + filepath.Join(dir, "platform.db")), Key: secret.New(strings.Repeat("k", 32)),
		Listener: listener, ControlDir: dir, PublicURL: &url.URL{Scheme: "http", Host: listener.Addr().String()},
		TunnelURL: "ws://" + listener.Addr().String(), FirstStart: server.FirstStart{Account: "Example", Email: email, Announce: p.announced.announce},
		Log: slog.New(slog.NewTextHandler(p.logs, nil)), Metrics: observe.NewMetrics("1.0.0", "commit"), Health: p.health, Version: "1.0.0",
	}
	for _, f := range change {
		f(&options)
	}
	p.url, p.database = options.PublicURL.String(), options.Database.Reveal()
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.ended <- server.Run(ctx, options) }()
	t.Cleanup(func() {
		cancel()
		if p.ended != nil {
			<-p.ended
		}
	})
	return p
}

// stop ends the platform in good order.
func (p *platform) stop() {
	p.t.Helper()
	p.cancel()
	p.over()
}

// over waits for the end.
func (p *platform) over() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("it ended with %v", err)
		}
		p.ended = nil
	case <-time.After(patience):
		p.t.Fatalf("it does not end:\n%s", p.logs)
	}
}

// key makes an API key through the socket for commands.
func (p *platform) key(scope string) string {
	p.t.Helper()
	var answer strings.Builder
	query := url.Values{"email": {email}, "name": {"tests"}, "scope": {scope}, "life": {"1h"}}
	check(p.t, server.SendCommand(p.t.Context(), p.dir, "/users/create-key?"+query.Encode(), &answer))
	return answer.String()
}

// client has a jar for cookies and a token, which may be empty.
func client(t *testing.T, token string, transport *http.Transport) *http.Client {
	t.Helper()
	if transport == nil {
		transport = &http.Transport{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	jar, err := cookiejar.New(nil)
	check(t, err)
	return &http.Client{Jar: jar, Transport: programs.Bearer(token, transport), Timeout: patience}
}

// users are the emails of all users in a database that is not open.
func users(t *testing.T, database string) []string {
	t.Helper()
	opened, err := store.Open(t.Context(), store.Options{URL: database})
	check(t, err)
	defer func() { _ = opened.Close() }()
	accounts, err := opened.Accounts(t.Context())
	check(t, err)
	var emails []string
	for _, account := range accounts {
		all, _, err := opened.Users(t.Context(), account.ID, store.Page{})
		check(t, err)
		for _, user := range all {
			emails = append(emails, fmt.Sprintf("%s of %s", user.Email, account.Name))
		}
	}
	return emails
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
