// Package platform runs the real program, slipway platform, with each database, and
// looks at it from outside: its API, its output, what it keeps and how it ends.
package platform

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = time.Minute
)

// place is a database with what belongs to it.
type place struct {
	args    []string // options of the platform
	dir     string   // what is kept on the disk
	address string   // where it listens; empty is any port
	url     string   // of a PostgreSQL
}

// onBoth runs a test with each database.
func onBoth(t *testing.T, test func(t *testing.T, at place)) {
	t.Run("sqlite", func(t *testing.T) { test(t, sqlitePlace(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, postgresPlace(t)) })
}

func sqlitePlace(t *testing.T) place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	return place{dir: dir, args: []string{"--state.dir=" + dir}}
}

func postgresPlace(t *testing.T) place {
	t.Helper()
	return placeAt(t, pgtest.URL(t))
}

// placeAt is a database of a PostgreSQL.
func placeAt(t *testing.T, url string) place {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	must.Do(t, os.WriteFile(key, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600))
	return place{dir: dir, url: url, args: []string{"--database.url=" + url, "--database.secretKeyFile=" + key}}
}

// process is a platform that runs.
type process struct {
	*programs.Process
	url string
}

// start runs a platform on free ports and waits until it is ready.
func start(t *testing.T, at place, args ...string) *process {
	t.Helper()
	p := launch(t, at, args...)
	return &process{p, p.Listens(t, "platform").URL}
}

// launch runs a platform.
func launch(t *testing.T, at place, args ...string) *programs.Process {
	t.Helper()
	given := append([]string{"platform", "--server.address=" + cmp.Or(at.address, "127.0.0.1:0"), "--health.address=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--log.format=json"}, at.args...)
	command := exec.Command(binary.Path(t), append(given, args...)...)
	command.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	return programs.Run(t, "the platform", command)
}

// run runs a command to its end.
func run(t *testing.T, at place, words ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, binary.Path(t), append(append([]string{"platform"}, words...), at.args...)...)
	command.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	return string(out), err
}
