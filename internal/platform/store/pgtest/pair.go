package pgtest

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Pair is a primary and a standby that follows it by streaming replication. The
// primary acknowledges a commit when the standby has stored it.
type Pair struct{ primary, standby running }

// pairDatabase is the database of a pair.
const pairDatabase = "slipway"

// NewPair starts a primary and its standby. Both end with the test.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	first, second := newTestPlace(t), newTestPlace(t)
	if err := first.initialize(settings + "synchronous_standby_names = '*'\n"); err != nil {
		t.Fatal(err)
	}
	p := &Pair{primary: startTest(t, first)}
	// The standby starts with a copy of the primary, and -R makes it follow.
	if err := second.run("pg_basebackup", "-h", first.folder, "-U", "postgres", "-D", second.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		t.Fatal(err)
	}
	// As primary it has no standby that could confirm its commits.
	if err := second.configure("synchronous_standby_names = ''\n"); err != nil {
		t.Fatal(err)
	}
	p.standby = startTest(t, second)
	if err := p.primary.exec(t.Context(), "CREATE DATABASE "+pairDatabase); err != nil { // waits for the standby
		t.Fatal(err)
	}
	return p
}

// URL returns the URL of the database with both hosts.
func (p *Pair) URL() string {
	location := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + pairDatabase, RawQuery: url.Values{
		"host": {p.primary.sockets + "," + p.standby.sockets}, "port": {"5432,5432"},
	}.Encode()}
	return location.String()
}

// KillPrimary ends all processes of the primary with SIGKILL.
func (p *Pair) KillPrimary(t testing.TB) { p.primary.kill(t) }

// KillStandby ends all processes of the standby with SIGKILL. Commits on the
// primary then wait.
func (p *Pair) KillStandby(t testing.TB) { p.standby.kill(t) }

// Promote makes the standby the primary.
func (p *Pair) Promote(t testing.TB) {
	t.Helper()
	if err := p.standby.exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
}

// CancelCommits cancels commits that wait for the standby, as soon as there is
// one. PostgreSQL then reports their success.
func (p *Pair) CancelCommits(t testing.TB) {
	t.Helper()
	const cancel = `DO $$ BEGIN
		LOOP
			PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep';
			EXIT WHEN FOUND;
			PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
		END LOOP;
	END $$`
	if err := p.primary.exec(t.Context(), cancel); err != nil {
		t.Fatal(err)
	}
}

// Demote makes the primary refuse writes without ending its connections, as
// managed databases do when they exchange the two.
func (p *Pair) Demote(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, statement := range []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"} {
		if err := p.primary.exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
}

func newTestPlace(t testing.TB) place {
	t.Helper()
	p, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.folder) }) // the supervisor removes it too
	return p
}

// startTest starts a server that ends with the test.
func startTest(t testing.TB, p place) running {
	t.Helper()
	s, err := p.start()
	if s.alive != nil {
		t.Cleanup(func() {
			_ = s.alive.Close()
			_ = s.ended() // it may have been killed
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kill ends all processes of the server at once.
func (s running) kill(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.sockets, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	postmaster := string(bytes.TrimSpace(first))
	children, err := os.ReadFile(filepath.Join("/proc", postmaster, "task", postmaster, "children"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{postmaster}, strings.Fields(string(children))...) {
		pid, err := strconv.Atoi(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
}
