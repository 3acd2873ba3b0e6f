package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/platform/store"
)

// childMode selects what a child process of the test binary does instead of tests.
const childMode = "SLIPWAY_STORE_TEST_CHILD"

// unsupported is the exit code of a child on a machine without the needed features.
const unsupported = 77

func TestMain(m *testing.M) {
	mode := os.Getenv(childMode)
	if mode == "" {
		os.Exit(m.Run())
	}
	folder := os.Args[len(os.Args)-1]
	var err error
	switch mode {
	case "writer":
		err = writeForever(folder)
	case "tmpfs":
		err = onTmpfs(folder)
	case "limit":
		err = underLimit(folder)
	default:
		err = fmt.Errorf("no such mode: %s", mode)
	}
	if errors.Is(err, errUnsupported) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(unsupported)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errUnsupported = errors.New("this machine does not allow it")

func child(t testing.TB, mode, folder string) *exec.Cmd {
	command := exec.CommandContext(t.Context(), os.Args[0], folder)
	command.Env = append(os.Environ(), childMode+"="+mode)
	return command
}

func childURL(folder string) string { return "sqlite://" + filepath.Join(folder, "platform.db") }

// writeForever has several writers, each of which prints what is stored, as soon as
// it knows.
func writeForever(folder string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{URL: childURL(folder)})
	if err != nil {
		return err
	}
	account, err := s.CreateAccount(ctx, store.Account{Name: "Harbour"})
	if err != nil {
		return err
	}
	runtime, err := s.CreateRuntime(ctx, store.Runtime{AccountID: account.ID, Name: "prod"})
	if err != nil {
		return err
	}
	failures := make(chan error)
	for writer := range 4 {
		go func() {
			for i := int64(1); ; i++ {
				user, err := s.CreateUser(ctx, store.User{AccountID: account.ID, Email: fmt.Sprintf("%d-%d@%s", writer, i, account.ID), Role: store.RoleOperator})
				if err != nil {
					failures <- err
					return
				}
				fmt.Printf("user %s %s\n", account.ID, user.ID)
				if writer > 0 {
					continue
				}
				cursor, err := s.ApplyReport(ctx, runtime.ID, "stream", []store.ReportChange{{Number: i, ResyncBegin: true}})
				if err != nil {
					failures <- err
					return
				}
				fmt.Printf("report %s %d\n", runtime.ID, cursor.Stored)
			}
		}()
	}
	return <-failures
}

// A platform that is killed while it writes loses nothing that it has acknowledged,
// and its database opens clean: again and again.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	rounds := 20
	if os.Getenv("RESILIENCE") == "long" {
		rounds = 200
	}
	folder := t.TempDir()
	users, reports := [][2]string{}, map[string]int64{}
	for round := range rounds {
		command := child(t, "writer", folder)
		output := must(command.StdoutPipe())(t)
		complaints := new(strings.Builder)
		command.Stderr = complaints
		check(t, command.Start())
		lines := bufio.NewScanner(output)
		for until := 1 + rand.IntN(60); lines.Scan(); until-- {
			if until == 0 {
				check(t, command.Process.Kill())
			}
			var id, account string
			var number int64
			if n, _ := fmt.Sscanf(lines.Text(), "report %s %d", &id, &number); n == 2 {
				reports[id] = number
			} else if n, _ := fmt.Sscanf(lines.Text(), "user %s %s", &account, &id); n == 2 && len(id) == 24 {
				users = append(users, [2]string{account, id})
			}
		}
		if err := command.Wait(); err == nil || command.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("round %d: the writer was not killed: %v %s", round, err, complaints)
		}
		checkAcknowledged(t, folder, users, reports)
	}
	if len(users) < rounds || len(reports) == 0 {
		t.Errorf("only %d users and %d reports were written", len(users), len(reports))
	}
}

// checkAcknowledged opens the database, which checks it, and looks for everything.
func checkAcknowledged(t testing.TB, folder string, users [][2]string, reports map[string]int64) {
	t.Helper()
	s := must(store.Open(t.Context(), store.Options{URL: childURL(folder)}))(t)
	defer func() { check(t, s.Close()) }()
	for _, user := range users {
		if _, err := s.User(t.Context(), user[0], user[1]); err != nil {
			t.Fatalf("user %s is lost: %v", user[1], err)
		}
	}
	for id, number := range reports {
		if cursor := must(s.Cursor(t.Context(), id))(t); cursor.Stored < number {
			t.Fatalf("report %d of %s is lost: %+v", number, id, cursor)
		}
	}
}

// With a full disk writes return errors, reads go on, and when there is room
// again writes work, without a restart.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for mode, attributes := range map[string]*syscall.SysProcAttr{
		"tmpfs": {Cloneflags: unix.CLONE_NEWNS},
		"limit": {},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			command := child(t, mode, t.TempDir())
			command.SysProcAttr = attributes
			if os.Getuid() != 0 && attributes.Cloneflags != 0 {
				attributes.Cloneflags |= unix.CLONE_NEWUSER
				attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
				attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
			}
			output, err := command.CombinedOutput()
			if errors.Is(err, syscall.EPERM) || command.ProcessState != nil && command.ProcessState.ExitCode() == unsupported {
				t.Skipf("%v %s", err, output) // the other way shows the same
			}
			if err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// onTmpfs has a small disk, in a mount namespace of its own.
func onTmpfs(folder string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: %w", errUnsupported, err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		return fmt.Errorf("%w: %w", errUnsupported, err)
	}
	ballast := filepath.Join(folder, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		return err
	}
	return fillAndFree(folder, "free space there", func() error { return os.Remove(ballast) })
}

// underLimit bounds the size of files, which the kernel reports as if there were no
// room.
func underLimit(folder string) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := &unix.Rlimit{Cur: 2 << 20, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(0, unix.RLIMIT_FSIZE, limit, nil); err != nil {
		return fmt.Errorf("%w: %w", errUnsupported, err)
	}
	return fillAndFree(folder, "free space", func() error {
		return unix.Prlimit(0, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
	})
}

// fillAndFree writes until the disk is full, reads, makes room and writes again.
func fillAndFree(folder, advice string, free func() error) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{URL: childURL(folder)})
	if err != nil {
		return err
	}
	account, err := s.CreateAccount(ctx, store.Account{Name: "Harbour"})
	if err != nil {
		return err
	}
	stored := 0
	write := func() error {
		return s.AppendAudit(ctx, store.AuditEntry{AccountID: account.ID, Actor: "ada", Detail: strings.Repeat("x", 4000)})
	}
	for err = nil; err == nil && stored < 10_000; {
		if err = write(); err == nil {
			stored++
		}
	}
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), advice) {
		return fmt.Errorf("a full disk after %d entries is %w", stored, err)
	}
	if err := parallelReads(ctx, s, account, stored); err != nil {
		return fmt.Errorf("while the disk is full: %w", err)
	}
	if err := write(); !errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("the full disk is then %w", err)
	}
	if err := free(); err != nil {
		return err
	}
	for range 20 {
		if err := write(); err != nil {
			return fmt.Errorf("with room again: %w", err)
		}
		stored++
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = store.Open(ctx, store.Options{URL: childURL(folder)}); err != nil {
		return fmt.Errorf("opening again: %w", err)
	}
	return errors.Join(parallelReads(ctx, s, account, stored), s.Close())
}

// parallelReads reads everything on several connections, some of them new.
func parallelReads(ctx context.Context, s *store.Store, account store.Account, want int) error {
	var group sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		group.Go(func() {
			count, page := 0, store.Page{Size: store.MaxPageSize}
			for {
				entries, next, err := s.AuditEntries(ctx, account.ID, store.AuditFilter{}, page)
				if err != nil {
					errs[i] = err
					return
				}
				count += len(entries)
				if page.Token = next; next == "" {
					break
				}
			}
			if count != want {
				errs[i] = fmt.Errorf("%d entries are read, %d were stored", count, want)
			}
		})
	}
	group.Wait()
	return errors.Join(append(errs, s.Ready(ctx))...)
}
