// Package pgtest runs a real PostgreSQL for tests. The tests of a package
// share one server, which starts on first use, in its own folder and on a
// socket that only its user and root can access. Each test gets its own
// databases.
//
// It guarantees that the server and its folder are removed when the test
// process ends, even after a crash. It needs Debian's postgresql package and
// fails without it.
package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is the PostgreSQL of this test process.
var server = sync.OnceValues(start)

// running is a server that accepts connections.
type running struct {
	sockets string
	// alive stays open as long as the test process lives; the supervisor
	// reads from it.
	alive io.Closer
	ended func() error // waits for the supervisor
}

// URL creates a database and returns its URL, which needs no password. The
// database has a natural-language collation, as databases of users may have,
// so that tests find queries that depend on it. It is dropped when the test
// ends.
func URL(t testing.TB) string {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatal(err)
	}
	name := "slipway_" + strings.ToLower(rand.Text()[:12])
	create := "CREATE DATABASE " + name + " TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'"
	if err := s.exec(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

// Admin runs a statement as superuser outside of the databases of tests, for
// example to terminate connections.
func Admin(t testing.TB, statement string) {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func (s running) url(database string) string {
	location := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database,
		RawQuery: url.Values{"host": {s.sockets}, "port": {"5432"}}.Encode()}
	return location.String()
}

func (s running) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	connection, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(ctx) }()
	if _, err := connection.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// supervisor runs the server until its stdin is closed, which happens when
// the test process ends, and removes all files.
const supervisor = `
"$1/postgres" -D "$2/data" -k "$2" >>"$2/log" 2>&1 </dev/null &
read -r nothing
kill -QUIT $!
wait $!
rm -rf "$2"
`

// settings are those of every server. Tests survive no power failure, so
// nothing waits for the disk.
const settings = "listen_addresses = ''\nunix_socket_permissions = 0700\nfsync = off\nmax_connections = 200\n"

func start() (running, error) {
	p, err := newPlace()
	if err != nil {
		return running{}, err
	}
	if err := p.initialize(settings); err != nil {
		return running{}, err
	}
	return p.start()
}

// place is the folder of a server, with the programs and the user that run it.
type place struct {
	programs, folder string
	owner            *syscall.SysProcAttr
}

// newPlace creates a folder.
func newPlace() (place, error) {
	programs, err := programs()
	if err != nil {
		return place{}, err
	}
	folder, err := os.MkdirTemp("", "slipway-pg-")
	if err != nil {
		return place{}, err
	}
	owner, err := owner(folder)
	return place{programs: programs, folder: folder, owner: owner}, err
}

// initialize creates the files of an empty server.
func (p place) initialize(settings string) error {
	err := p.run("initdb", "-D", p.data(), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	return p.configure(settings)
}

// configure appends settings; the last of a name is in effect.
func (p place) configure(settings string) error {
	return appendFile(filepath.Join(p.data(), "postgresql.conf"), settings)
}

func (p place) data() string { return filepath.Join(p.folder, "data") }

// run runs a program of PostgreSQL to its end.
func (p place) run(name string, args ...string) error {
	command := exec.Command(filepath.Join(p.programs, name), args...)
	command.SysProcAttr, command.Dir = p.owner, p.folder
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, output)
	}
	return nil
}

// start starts the server and returns when it accepts connections.
func (p place) start() (running, error) {
	supervise := exec.Command("/bin/sh", "-c", supervisor, "sh", p.programs, p.folder)
	supervise.SysProcAttr, supervise.Dir = p.owner, p.folder
	alive, err := supervise.StdinPipe()
	if err != nil {
		return running{}, err
	}
	if err := supervise.Start(); err != nil {
		return running{}, err
	}
	s := running{sockets: p.folder, alive: alive, ended: supervise.Wait}
	return s, s.wait(filepath.Join(p.folder, "log"))
}

// wait returns when the server accepts connections.
func (s running) wait(log string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.exec(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log)
			return fmt.Errorf("PostgreSQL does not start: %w\n%s", err, bytes.TrimSpace(text))
		}
	}
}

// programs returns the folder of the newest PostgreSQL.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("the tests need PostgreSQL: run scripts/install-packages.sh")
	}
	version := func(folder string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder))) // another name counts as the oldest
		return n
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

// owner returns the user that runs the server: PostgreSQL refuses to run as
// root.
func owner(folder string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must only reach the tests
	if os.Getuid() != 0 {
		return attributes, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("the tests run PostgreSQL as the user that its package makes: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(folder, int(uid), int(gid))
}

func appendFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(text); err != nil {
		_ = file.Close() // the first error is returned
		return err
	}
	return file.Close()
}
