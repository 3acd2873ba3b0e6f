package tree_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// packed is an archive of entries in their order.
func packed(t testing.TB, compress bool, headers ...tar.Header) []byte {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, h := range headers {
		content := strings.Repeat("x", int(h.Size))
		h.Typeflag = cmp.Or(h.Typeflag, tar.TypeReg)
		h.Mode = 0o644
		must.Do(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			must.Get(w.Write([]byte(content)))(t)
		}
	}
	must.Do(t, w.Close())
	if !compress {
		return plain.Bytes()
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	must.Get(compressed.Write(plain.Bytes()))(t)
	must.Do(t, compressed.Close())
	return out.Bytes()
}

func TestFromArchive(t *testing.T) {
	for _, compress := range []bool{true, false} {
		content := packed(t, compress, tar.Header{Name: "web/", Typeflag: tar.TypeDir}, tar.Header{Name: "web/Chart.yaml", Size: 3}, tar.Header{Name: "./web/templates/a.yaml", Size: 5})
		for strip, want := range map[bool]string{true: "templates/a.yaml", false: "web/templates/a.yaml"} {
			store := must.Get(tree.FromArchive(bytes.NewReader(content), tree.ArchiveLimits{StripFirst: strip}))(t)
			if text, err := store.Read(want, 10); err != nil || string(text) != "xxxxx" {
				t.Errorf("%s is %q, %v", want, text, err)
			}
		}
	}
}

func TestFromArchiveRefuses(t *testing.T) {
	limits := tree.ArchiveLimits{Bytes: 100, FileBytes: 60, Files: 5}
	for name, tt := range map[string]struct {
		content []byte
		want    string
	}{
		"absolute":          {packed(t, true, tar.Header{Name: "/etc/passwd", Size: 1}), "absolute"},
		"above":             {packed(t, true, tar.Header{Name: "a/../../b", Size: 1}), "leaves"},
		"symbolic link":     {packed(t, true, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), "link"},
		"hard link":         {packed(t, true, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "b"}), "link"},
		"device":            {packed(t, true, tar.Header{Name: "a", Typeflag: tar.TypeChar}), "neither"},
		"pipe":              {packed(t, true, tar.Header{Name: "a", Typeflag: tar.TypeFifo}), "neither"},
		"backslash":         {packed(t, true, tar.Header{Name: `a\b`, Size: 1}), "character"},
		"twice":             {packed(t, true, tar.Header{Name: "a", Size: 1}, tar.Header{Name: "./a", Size: 1}), "twice"},
		"large file":        {packed(t, true, tar.Header{Name: "a", Size: 61}), "larger than 60"},
		"large together":    {packed(t, true, tar.Header{Name: "a", Size: 60}, tar.Header{Name: "b", Size: 60}), "more than 100"},
		"many":              {packed(t, true, tar.Header{Name: "a"}, tar.Header{Name: "b"}, tar.Header{Name: "c"}, tar.Header{Name: "d"}, tar.Header{Name: "e"}, tar.Header{Name: "f"}), "more than 5"},
		"nothing":           {nil, "no files"},
		"not an archive":    {[]byte(strings.Repeat("hello", 500)), "cannot be read"},
		"cut off":           {packed(t, false, tar.Header{Name: "a", Size: 50})[:530], "cut off"},
		"gzip of something": {append([]byte{0x1f, 0x8b}, "nonsense"...), "gzip"},
	} {
		store, err := tree.FromArchive(bytes.NewReader(tt.content), limits)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v", name, store, err)
		}
		var refused *refusal.Refusal
		if errors.As(err, &refused) && refused.Reason == "" {
			t.Errorf("%s: no reason", name)
		}
	}
}

// An archive that is small and unpacks to much is refused early.
func TestFromArchiveBomb(t *testing.T) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	const size = 64 << 20
	must.Do(t, w.WriteHeader(&tar.Header{Name: "a", Size: size, Mode: 0o644, Typeflag: tar.TypeReg}))
	zeros := make([]byte, 1<<20)
	for range size >> 20 {
		must.Get(w.Write(zeros))(t)
	}
	must.Do(t, errors.Join(w.Close(), compressed.Close()))
	read := &counting{from: bytes.NewReader(out.Bytes())}
	if _, err := tree.FromArchive(read, tree.ArchiveLimits{}); err == nil {
		t.Error("it is taken")
	}
	if read.count > out.Len()/2 {
		t.Errorf("%d of %d bytes were read", read.count, out.Len())
	}
}

type counting struct {
	from  *bytes.Reader
	count int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.count += n
	return n, err
}

func FuzzFromArchive(f *testing.F) {
	f.Add(packed(f, true, tar.Header{Name: "web/Chart.yaml", Size: 3}), true)
	f.Add(packed(f, false, tar.Header{Name: "a/b", Size: 3}, tar.Header{Name: "../x", Size: 1}), false)
	f.Fuzz(func(t *testing.T, content []byte, strip bool) {
		limits := tree.ArchiveLimits{Bytes: 1 << 16, FileBytes: 1 << 15, Files: 50, StripFirst: strip}
		store, err := tree.FromArchive(bytes.NewReader(content), limits)
		if err != nil {
			return
		}
		if _, err := store.List(""); err != nil {
			t.Errorf("the root cannot be listed: %v", err)
		}
	})
}
