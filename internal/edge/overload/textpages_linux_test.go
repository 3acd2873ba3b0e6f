package overload

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const mappingsSample = `00400000-02fa1000 r-xp 00000000 fe:00 9978511                            /bin/a program
Rss:               40768 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
02fa1000-062e6000 r--p 02ba1000 fe:00 9978511                            /bin/a program
Anonymous:             4 kB
Swap:                  0 kB
VmFlags: rd mr mw me
062e6000-06300000 r--p 02ba1000 fe:00 9978511                            /bin/a program
Anonymous:             0 kB
Swap:                  8 kB
VmFlags: rd mr mw me
06300000-06680000 rw-p 05ee6000 fe:00 9978511                            /bin/a program
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd wr mr mw me ac
06700000-06701000 r--p 00000000 fe:00 9978511                            /bin/a program
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
ae20b400000-ae20fc00000 rw-p 00000000 00:00 0
Anonymous:         62052 kB
Swap:                  0 kB
VmFlags: rd wr mr mw me ac
7f29ed15e000-7f29ed800000 r--p 00000000 fe:00 17                         /lib/other
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
`

// TestProgramParts: only mappings that are unchanged from their file are dropped.
func TestProgramParts(t *testing.T) {
	got := programParts([]byte(mappingsSample), "/bin/a program")
	want := []extent{{0x400000, 0x2ba1000}, {0x6700000, 0x1000}}
	if !slices.Equal(got, want) {
		t.Errorf("parts %x, want %x", got, want)
	}
	if got := programParts([]byte(mappingsSample), "/bin/another"); len(got) > 0 {
		t.Errorf("parts of another program: %x", got)
	}
}

// TestDropTextPages: the program goes on, with fewer of its pages in memory.
func TestDropTextPages(t *testing.T) {
	before := programPages(t)
	DropTextPages()
	if after := programPages(t); after >= before {
		t.Errorf("%d kB of files are in memory, and %d kB were before", after, before)
	}
}

// programPages is how much memory of files the process has, in kB.
func programPages(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("the system has no /proc")
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "RssFile:"); found {
			return must.Get(strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB")))(t)
		}
	}
	t.Fatal("/proc/self/status has no RssFile")
	return 0
}

func FuzzProgramParts(f *testing.F) {
	f.Add([]byte(mappingsSample), "/bin/a program")
	f.Fuzz(func(t *testing.T, text []byte, program string) {
		for _, part := range programParts(text, program) {
			if part.length == 0 || part.begin+part.length < part.begin {
				t.Errorf("%x", part)
			}
		}
	})
}
