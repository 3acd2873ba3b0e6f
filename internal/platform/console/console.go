// Package console serves the web console, which is built from web/ and
// embedded.
//
// It guarantees a strict Content-Security-Policy on every page, assets that
// browsers cache forever because their names contain a content hash, and one
// page for every URL of the console, whose router runs in the browser. It
// holds no data: the console uses the platform's API like any client. A
// binary that was built without the console serves instructions to build it.
//
// See decision 0020 in docs/decisions: the console is one page below /console/,
// with components of React Aria.
package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Path is the prefix of the console's URLs.
const Path = "/console/"

const (
	// page is served for every URL without a file.
	page = "index.html"
	// nonceMark is the placeholder of the style nonce in the page.
	nonceMark = "__NONCE__"
	// minCompressSize is the size below which compression saves nothing.
	minCompressSize = 512
)

//go:embed all:dist
var embedded embed.FS

// file is one file of the console with its compressed form.
type file struct {
	content, packed []byte
	mediaType, etag string
}

// Console serves the console's files.
type Console struct {
	files map[string]file
	// unbuilt is the page of a binary without the console.
	unbuilt []byte
	// public has the scheme and host at which browsers use the console.
	public url.URL
}

// New loads the embedded console, which browsers use at a public URL.
func New(public *url.URL) (*Console, error) {
	built, err := fs.Sub(embedded, "dist/app")
	if err != nil {
		return nil, err
	}
	c, err := load(built)
	if err == nil {
		c.public = url.URL{Scheme: public.Scheme, Host: public.Host}
	}
	return c, err
}

// load reads all files into memory; a missing page means that the console was
// not built.
func load(built fs.FS) (*Console, error) {
	c := &Console{files: map[string]file{}}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(built, name)
		if err != nil {
			return err
		}
		c.files[name], err = newFile(name, content)
		return err
	})
	if _, complete := c.files[page]; !complete && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		c.unbuilt, err = embedded.ReadFile("dist/unbuilt.html")
	}
	if err != nil {
		return nil, fmt.Errorf("read the console: %w", err)
	}
	return c, nil
}

// newFile prepares a file: ETag, media type and gzip. Compression runs once
// at startup instead of per request; the page is not compressed, because its
// nonce changes.
func newFile(name string, content []byte) (file, error) {
	sum := sha256.Sum256(content)
	f := file{
		content: content, mediaType: mime.TypeByExtension(path.Ext(name)),
		etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
	}
	f.mediaType = cmp.Or(f.mediaType, "application/octet-stream")
	if len(content) < minCompressSize || name == page {
		return f, nil
	}
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return f, err
	}
	if _, err := writer.Write(content); err != nil {
		return f, err
	}
	if err := writer.Close(); err != nil {
		return f, err
	}
	if packed.Len() < len(content) {
		f.packed = packed.Bytes()
	}
	return f, nil
}

// linksPath is the prefix of the addresses of Applications in Argo CD's console.
const linksPath = "/applications"

// Paths returns the paths that the console serves: its prefix, and those that
// redirect there.
func Paths() []string {
	return []string{"/", strings.TrimSuffix(Path, "/"), Path, linksPath, linksPath + "/"}
}

// ServeHTTP serves a URL of the console.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the console is read with GET", http.StatusMethodNotAllowed)
	// The page finds the Application. The request can have the former host of
	// Argo CD, where the console does not work.
	case strings.HasPrefix(r.URL.Path, linksPath):
		target := c.public
		target.Path, target.RawQuery = strings.TrimSuffix(Path, "/")+r.URL.Path, r.URL.RawQuery
		http.Redirect(w, r, target.String(), http.StatusFound)
	case !strings.HasPrefix(r.URL.Path, Path):
		http.Redirect(w, r, Path, http.StatusFound)
	default:
		c.serve(w, r, strings.TrimPrefix(r.URL.Path, Path))
	}
}

func (c *Console) serve(w http.ResponseWriter, r *http.Request, name string) {
	found, ok := c.files[name]
	switch {
	case c.unbuilt != nil:
		protect(w.Header(), "")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(c.unbuilt) // the reader may be gone
	case ok && name != page:
		found.send(w, r, strings.HasPrefix(name, "assets/"))
	case strings.HasPrefix(name, "assets/"):
		// A page of an older version requests an asset of its own build.
		http.Error(w, "this file belongs to another version of the console: load the page again", http.StatusNotFound)
	default:
		c.sendPage(w)
	}
}

// send writes a file. Assets have content hashes in their names and are
// immutable.
func (f file) send(w http.ResponseWriter, r *http.Request, forever bool) {
	header := w.Header()
	header.Set("Content-Type", f.mediaType)
	header.Set("ETag", f.etag)
	header.Set("Vary", "Accept-Encoding")
	header.Set("Cache-Control", "no-cache")
	if forever {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	// A single ETag is compared; browsers send the one they stored.
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.content
	if f.packed != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
		content = f.packed
	}
	header.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // the reader may be gone
}

// sendPage writes the page with a fresh nonce.
func (c *Console) sendPage(w http.ResponseWriter) {
	nonce := rand.Text()
	protect(w.Header(), nonce)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(bytes.ReplaceAll(c.files[page].content, []byte(nonceMark), []byte(nonce))) // the reader may be gone
}

// protect sets the CSP of a page: it may load the console's own files, use
// the platform's API, and apply style elements with the nonce.
func protect(header http.Header, nonce string) {
	styles := "'self'"
	if nonce != "" {
		styles += " 'nonce-" + nonce + "'"
	}
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src "+styles+
		"; img-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// acceptsGzip evaluates Accept-Encoding (RFC 9110, section 12.5.3), as far as
// gzip is concerned.
func acceptsGzip(accepted string) bool {
	for part := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" {
			return strings.ReplaceAll(quality, " ", "") != "q=0"
		}
	}
	return false
}
