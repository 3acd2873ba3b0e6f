package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/devcluster/must"
)

// openLog makes the log of run 0 with a small limit, so that rotation happens.
func openLog(t *testing.T, limit int64) (*logStore, *logFile) {
	t.Helper()
	store := newLogStore(filepath.Join(t.TempDir(), "main"))
	store.limit = limit
	file := must.Get(store.create(0))(t)
	t.Cleanup(file.end)
	return store, file
}

func readLog(t *testing.T, file *logFile, q logQuery) string {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, file.copyTo(t.Context(), &out, func() error { return nil }, q))
	return out.String()
}

var everything = logQuery{tail: -1, limit: -1}

func TestLogLines(t *testing.T) {
	long := strings.Repeat("x", 3*logLineLimit+5)
	for _, tt := range []struct {
		name   string
		writes []string
		want   string // empty: all writes, joined
	}{
		{name: "lines", writes: []string{"one\n", "two\nthree\n"}},
		{name: "cut anywhere", writes: []string{"o", "ne", "\ntw", "o\n", "\n\n"}},
		{name: "no end", writes: []string{"one\ntwo"}},
		{name: "long", writes: []string{long, long + "\n", "short\n"}},
		{name: "exactly the limit", writes: []string{strings.Repeat("y", logLineLimit) + "\n", "z\n"}},
		{name: "spaces and bytes", writes: []string{"  a  b  \n\x00\xff\r\n"}},
		{name: "nothing", writes: []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, file := openLog(t, logFileLimit)
			stdout := file.stream("stdout")
			for _, w := range tt.writes {
				if n, err := io.WriteString(stdout, w); n != len(w) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
			file.end()
			if got, want := readLog(t, file, everything), strings.Join(tt.writes, ""); got != want {
				t.Errorf("read %d bytes %.80q, want %d bytes %.80q", len(got), got, len(want), want)
			}
		})
	}
}

func TestLogQueries(t *testing.T) {
	store, file := openLog(t, logFileLimit)
	stdout, stderr := file.stream("stdout"), file.stream("stderr")
	for i := range 5 {
		fmt.Fprintf(stdout, "out %d\n", i)
		fmt.Fprintf(stderr, "err %d\n", i)
	}
	io.WriteString(stdout, strings.Repeat("z", logLineLimit)+"end\n")
	file.end()
	tail := strings.Repeat("z", logLineLimit) + "end\n"
	future := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		name string
		q    logQuery
		want string
	}{
		{"tail", logQuery{tail: 3, limit: -1}, "out 4\nerr 4\n" + tail},
		{"tail one", logQuery{tail: 1, limit: -1}, tail},
		{"tail none", logQuery{tail: 0, limit: -1}, ""},
		{"tail more than all", logQuery{tail: 99, limit: -1, stream: "stderr"}, "err 0\nerr 1\nerr 2\nerr 3\nerr 4\n"},
		{"limit", logQuery{tail: -1, limit: 8}, "out 0\ner"},
		{"limit at a line", logQuery{tail: -1, limit: 6}, "out 0\n"},
		{"limit none", logQuery{tail: -1, limit: 0}, ""},
		{"limit and tail", logQuery{tail: 3, limit: 9}, "out 4\nerr"},
		{"since later", logQuery{tail: -1, limit: -1, since: future}, ""},
		{"since before", logQuery{tail: 2, limit: -1, since: future.Add(-2 * time.Hour)}, "err 4\n" + tail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := readLog(t, file, tt.q); got != tt.want {
				t.Errorf("read %.80q, want %.80q", got, tt.want)
			}
		})
	}

	// A log that is only on disk reads the same.
	again := must.Get(newLogStore(store.dir).find(0))(t)
	stamped := readLog(t, again, logQuery{tail: 2, limit: -1, timestamps: true, follow: true})
	lines := strings.SplitAfter(strings.TrimSuffix(stamped, "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines with timestamps, want 2", len(lines))
	}
	for i, want := range []string{"err 4\n", strings.TrimSuffix(tail, "\n")} {
		stamp, text, _ := strings.Cut(lines[i], " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || time.Since(at) > time.Hour || text != want {
			t.Errorf("line %d is %.60q: %v", i, lines[i], err)
		}
	}
}

func TestLogRotation(t *testing.T) {
	store, file := openLog(t, 1000)
	stdout := file.stream("stdout")
	for i := range 100 {
		fmt.Fprintf(stdout, "line %02d\n", i)
	}
	file.end()
	var total int64
	for _, path := range []string{store.path(0), store.path(0) + ".1"} {
		info := must.Get(os.Stat(path))(t)
		if info.Size() > 1000 {
			t.Errorf("%s has %d bytes, more than its limit", path, info.Size())
		}
		total += info.Size()
	}
	if entries, _ := os.ReadDir(store.dir); len(entries) != 2 {
		t.Errorf("%d files are kept, want 2", len(entries))
	}
	got := readLog(t, file, everything)
	if !strings.HasSuffix(got, "line 98\nline 99\n") || strings.HasPrefix(got, "line 00\n") || strings.Count(got, "\n") < 20 {
		t.Errorf("after rotation the log is %q", got)
	}
	if got := readLog(t, file, logQuery{tail: 25, limit: -1}); strings.Count(got, "\n") != 25 || !strings.HasPrefix(got, "line 75\n") {
		t.Errorf("the last 25 lines over two files are %q", got)
	}
}

// A follower sees every line once and in order, however often the file turns under it, and ends with the log.
func TestLogFollow(t *testing.T) {
	for _, limit := range []int64{logFileLimit, 4000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			_, file := openLog(t, limit)
			stdout := file.stream("stdout")
			io.WriteString(stdout, "line 0\n")
			reader, writer := io.Pipe()
			var following sync.WaitGroup
			defer following.Wait()
			following.Go(func() {
				err := file.copyTo(t.Context(), writer, func() error { return nil }, logQuery{follow: true, tail: -1, limit: -1})
				writer.CloseWithError(err)
			})
			// Each line is written when the one before has been read, so nothing can be rotated away unread.
			const lines = 500
			buffer := make([]byte, 100)
			for i := range lines {
				want := fmt.Sprintf("line %d\n", i)
				if _, err := io.ReadFull(reader, buffer[:len(want)]); err != nil || string(buffer[:len(want)]) != want {
					t.Fatalf("read %q, %v; want %q", buffer[:len(want)], err, want)
				}
				if i+1 < lines {
					fmt.Fprintf(stdout, "line %d\n", i+1)
				}
			}
			io.WriteString(stdout, "the end")
			file.end()
			rest, err := io.ReadAll(reader)
			if err != nil || string(rest) != "the end" {
				t.Errorf("the rest is %q, %v", rest, err)
			}
		})
	}
}

func TestLogFollowEndsWithItsReader(t *testing.T) {
	_, file := openLog(t, logFileLimit)
	ctx, cancel := context.WithCancel(t.Context())
	flushed := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- file.copyTo(ctx, io.Discard, func() error { flushed <- struct{}{}; return nil }, logQuery{follow: true, tail: -1, limit: -1})
	}()
	<-flushed
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLogStoreKeepsTwoRuns(t *testing.T) {
	store := newLogStore(filepath.Join(t.TempDir(), "main"))
	for run := range int32(4) {
		file := must.Get(store.create(run))(t)
		fmt.Fprintf(file.stream("stdout"), "run %d\n", run)
		file.end()
	}
	for run, want := range map[int32]string{0: "", 1: "", 2: "run 2\n", 3: "run 3\n"} {
		file, err := store.find(run)
		if (err == nil) != (want != "") {
			t.Errorf("find(%d) gave %v", run, err)
		} else if err == nil && readLog(t, file, everything) != want {
			t.Errorf("run %d reads %q", run, readLog(t, file, everything))
		}
	}
}

func TestParseLogQuery(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		in   string
		want logQuery
		err  string
	}{
		{in: "", want: everything},
		{in: "follow=true&previous=1&timestamps=true&tailLines=5&limitBytes=10", want: logQuery{follow: true, previous: true, timestamps: true, tail: 5, limit: 10}},
		{in: "sinceSeconds=60", want: logQuery{tail: -1, limit: -1, since: now.Add(-time.Minute)}},
		{in: "sinceSeconds=9223372036854775807", want: logQuery{tail: -1, limit: -1, since: now.Add(-100 * 365 * 24 * time.Hour)}},
		{in: "sinceTime=2026-01-01T00:00:00Z", want: logQuery{tail: -1, limit: -1, since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{in: "stream=Stderr", want: logQuery{tail: -1, limit: -1, stream: "stderr"}},
		{in: "stream=All", want: everything},
		{in: "tailLines=-1", err: `tailLines="-1"`},
		{in: "tailLines=x", err: `tailLines="x"`},
		{in: "follow=maybe", err: `follow="maybe"`},
		{in: "sinceTime=yesterday", err: `sinceTime="yesterday"`},
		{in: "stream=stdin", err: `stream="stdin"`},
	} {
		values := must.Get(url.ParseQuery(tt.in))(t)
		got, err := parseLogQuery(values, now)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: error is %v, want %q", tt.in, err, tt.err)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
	}
}

// FuzzParseRecord checks that what was written is what is read, and that nothing else breaks the reader.
func FuzzParseRecord(f *testing.F) {
	for _, seed := range []string{"", "a", "2026-01-02T03:04:05.000000000Z stdout F text", "x y F ", "   ", "a b P\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if rec, ok := parseRecord(line); ok && (len(rec.time) == 0 || len(rec.text) > len(line)) {
			t.Errorf("%q parsed as %+v", line, rec)
		}
		if bytes.ContainsRune(line, '\n') || len(line) >= logLineLimit {
			return
		}
		w := &logStream{name: "stdout", rest: bytes.Clone(line)}
		rec, ok := parseRecord(w.record(nil, time.Now(), tagFull))
		if !ok || !bytes.Equal(rec.text, line) || rec.partial || string(rec.stream) != "stdout" {
			t.Errorf("%q came back as %+v, %v", line, rec, ok)
		}
	})
}

// TestFollowOverTwoRotations: a rotation right after the follower has noticed one
// loses no line.
func TestFollowOverTwoRotations(t *testing.T) {
	_, file := openLog(t, 100) // one record of these lines
	stdout := file.stream("stdout")
	line := func(n int) string { return fmt.Sprintf("%d %s\n", n, strings.Repeat("x", 40)) }
	var out bytes.Buffer
	written, want := 0, ""
	write := func() {
		io.WriteString(stdout, line(written))
		want += line(written)
		written++
	}
	write()
	err := file.copyTo(t.Context(), &out, func() error {
		// Each flush comes between the state and the files that it is about.
		if written < 3 {
			write()
		} else {
			file.end()
		}
		return nil
	}, logQuery{follow: true, tail: -1, limit: -1})
	if err != nil || out.String() != want {
		t.Errorf("%v: followed %q, want %q", err, out.String(), want)
	}
}

// TestTailOfALineInTwoFiles: a long line whose parts a rotation separates is one
// line.
func TestTailOfALineInTwoFiles(t *testing.T) {
	_, file := openLog(t, logLineLimit+200)
	stdout := file.stream("stdout")
	long := strings.Repeat("x", logLineLimit)
	for _, text := range []string{long, "end\n"} {
		io.WriteString(stdout, text)
	}
	filler := file.stream("stderr")
	io.WriteString(filler, strings.Repeat("y", 200)+"\n")
	must.Get(os.Stat(file.rotated()))(t)
	if got := readLog(t, file, logQuery{tail: 1, limit: -1}); got != strings.Repeat("y", 200)+"\n" {
		t.Errorf("the last line is %q", got)
	}
}
