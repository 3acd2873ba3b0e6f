package accesslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/edge/accesslog"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// tryHead parses a head, nil when the edge would refuse it.
func tryHead(text string) *h1.Head {
	head, limits := &h1.Head{}, h1.DefaultLimits()
	if n, err := head.Parse([]byte(text), &limits); err != nil || n != len(text) {
		return nil
	}
	return head
}

func numbered(n int) *proxy.Record { return &proxy.Record{Path: fmt.Sprintf("/%d", n)} }

// TestRotation: nothing is lost or torn when the file is moved away, as log
// rotation does, while many goroutines write.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	log, _ := newLog(t, accesslog.Options{FilePath: path, Format: accesslog.FormatJSON, BufferingSize: 1 << 20})
	const writers, each, rotations = 8, 500, 10
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				log.Record(numbered(w*each + i))
			}
		})
	}
	for i := range rotations {
		if err := os.Rename(path, fmt.Sprintf("%s.%d", path, i)); err != nil {
			t.Error(err)
		}
		if err := log.Reopen(t.Context()); err != nil {
			t.Error(err)
		}
	}
	writing.Wait()
	closeLog(t, log)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != rotations+1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	seen := map[any]bool{}
	for _, file := range files {
		for line := range strings.Lines(readFile(t, file)) {
			seen[parseLine(t, line)["RequestPath"]] = true
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d of %d records", len(seen), writers*each)
	}
	if stats := log.Stats(); stats.Written != writers*each || stats.Dropped != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestReopenFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "logs", "access.log")
	must.Do(t, os.Mkdir(filepath.Dir(path), 0o755))
	log, _ := newLog(t, accesslog.Options{FilePath: path})
	moved := filepath.Join(dir, "moved")
	must.Do(t, os.Rename(filepath.Dir(path), moved))
	if err := log.Reopen(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	log.Record(numbered(1))
	closeLog(t, log)
	if text := readFile(t, filepath.Join(moved, "access.log")); strings.Count(text, "\n") != 1 {
		t.Errorf("the old file was given up: %q", text)
	}
	if err := log.Reopen(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	closeLog(t, log)
}

// stuck is an output that takes nothing until it is let go.
type stuck struct {
	begun   chan struct{}
	release chan struct{}
	once    sync.Once
	programs.Output
}

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.release
	return s.Output.Write(b)
}

// TestFull: an output that does not take lines costs lines, not traffic.
func TestFull(t *testing.T) {
	out := &stuck{begun: make(chan struct{}), release: make(chan struct{})}
	log := must.Get(accesslog.New(accesslog.Options{Stdout: out, BufferingSize: 100, FlushInterval: time.Millisecond, Log: slog.New(slog.DiscardHandler)}))(t)
	log.Record(numbered(0))
	<-out.begun
	for i := range 1000 {
		log.Record(numbered(i + 1)) // this would not return if it waited
	}
	if stats := log.Stats(); stats.Dropped != 900 || stats.Requests != 1001 {
		t.Errorf("%+v", stats)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	close(out.release)
	closeLog(t, log)
	if stats := log.Stats(); stats.Written != 101 {
		t.Errorf("%+v", stats)
	}
}

// TestLongLines: the queue is bounded in bytes too.
func TestLongLines(t *testing.T) {
	out := &stuck{begun: make(chan struct{}), release: make(chan struct{})}
	log := must.Get(accesslog.New(accesslog.Options{Stdout: out, BufferingSize: 1 << 30, FlushInterval: time.Millisecond, Log: slog.New(slog.DiscardHandler)}))(t)
	log.Record(numbered(0))
	<-out.begun
	long := &proxy.Record{Path: strings.Repeat("\x00", 4096)}
	const lines = 2000 // of 16 KiB each
	for range lines {
		log.Record(long)
	}
	if stats := log.Stats(); stats.Dropped < lines/4 || stats.Dropped > lines*3/4 {
		t.Errorf("%+v", stats)
	}
	close(out.release)
	closeLog(t, log)
}

// failing is an output that writes a part and fails, for some time.
type failing struct {
	fails int
	bytes.Buffer
}

func (f *failing) Write(b []byte) (int, error) {
	if f.fails == 0 {
		return f.Buffer.Write(b)
	}
	f.fails--
	n, _ := f.Buffer.Write(b[:len(b)/2])
	return n, syscall.ENOSPC
}

// TestDiskFull: after a disk was full, lines are whole again, and the trouble
// is logged once.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var complaints bytes.Buffer
		out := &failing{fails: 3}
		log := must.Get(accesslog.New(accesslog.Options{Stdout: out, Format: accesslog.FormatJSON, Log: slog.New(slog.NewTextHandler(&complaints, nil))}))(t)
		for i := range 5 {
			log.Record(numbered(i))
			<-time.After(time.Second)
		}
		closeLog(t, log)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) < 3 || parseLine(t, lines[len(lines)-2]+"\n")["RequestPath"] != "/3" || parseLine(t, lines[len(lines)-1]+"\n")["RequestPath"] != "/4" {
			t.Errorf("%q", lines)
		}
		if stats := log.Stats(); stats.Failed != 3 || stats.Written != 2 {
			t.Errorf("%+v", stats)
		}
		if n := strings.Count(complaints.String(), "cannot be written"); n != 1 {
			t.Errorf("%d complaints: %s", n, complaints.String())
		}
	})
}

// TestPipe: a named pipe without a reader is refused, and one whose reader does
// not read does not hold up the end.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := accesslog.New(accesslog.Options{FilePath: path}); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("no reader: %v", err)
	}
	reader := must.Get(os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
	defer reader.Close()
	log, _ := newLog(t, accesslog.Options{FilePath: path, BufferingSize: 1 << 20})
	for range 10000 {
		log.Record(&proxy.Record{Path: strings.Repeat("x", 200)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, format := range []accesslog.Format{accesslog.FormatJSON, accesslog.FormatCommon} {
		b.Run(string(format), func(b *testing.B) {
			log := must.Get(accesslog.New(accesslog.Options{Stdout: discard{}, Format: format, Log: slog.New(slog.DiscardHandler), BufferingSize: 1 << 30}))(b)
			record := sample(b)
			b.ReportAllocs()
			for b.Loop() {
				log.Record(record)
			}
			b.ReportMetric(float64(log.Stats().Dropped)/float64(b.N), "dropped/op")
			closeLog(b, log)
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
