package tenancy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// inside is an address that the agent must not connect to for any source.
const inside = "http://127.0.0.2:7778"

// dependencyAttempts are sources of evil whose charts, bases, submodules and files
// of Git LFS loop, are huge, lead inside, redirect, or are not those of their
// digests. A cycle of submodules is none of them: commits cannot contain
// themselves.
func dependencyAttempts() []attempt {
	const (
		notListed = "spec.sourceRepos does not have it"
		isInside  = "127.0.0.2 is an address of this machine"
		changed   = "it was changed, or what names it is old"
	)
	// depends is a chart that depends on another one.
	depends := func(chart, repository string) string {
		return chartFiles + `dependencies: [{name: ` + chart + `, version: 1.0.0, repository: "` + repository + "\"}]\n"
	}
	base := func(resource string) string {
		return "-- kustomization.yaml --\nresources: [own.yaml, \"" + resource + "\"]\n-- own.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
	}
	unmade := func(name, port string) proof { return all(absent("ConfigMap evil/"+name), unreached(port)) }
	forbidding := from("forbidding", `source: {repoURL: "http://localhost/evil/apps", path: NAME, targetRevision: main}`)
	tried := []attempt{
		{name: "dependency-loops", git: depends("shop", "file://../NAME"), reason: "deep", proof: absent("ConfigMap evil/dependency-loops")},
		{name: "dependency-huge", git: depends("huge", "http://localhost/charts/evil"), reason: "bytes", proof: absent("ConfigMap evil/dependency-huge")},
		{name: "dependency-inside", git: depends("shop", inside), applies: forbidding, reason: isInside, proof: unmade("dependency-inside", "7778")},
		{name: "archive-inside", git: depends("inside", "http://localhost/evil/charts"), reason: isInside, proof: unmade("archive-inside", "7778")},
		{name: "dependency-redirects", git: depends("shop", "http://localhost/evil/redirects"), reason: isInside, proof: unmade("dependency-redirects", "7778")},
		{name: "dependency-changes", git: depends("changed", "http://localhost/charts/evil"), reason: changed, proof: absent("ConfigMap evil/dependency-changes")},

		{name: "base-loops", git: base("http://localhost/evil/apps//NAME?ref=main"), reason: "cycle", proof: absent("ConfigMap evil/base-loops")},
		{name: "base-huge", git: base("http://localhost/evil/huge.yaml"), reason: "it has more than 10485760 bytes", proof: absent("ConfigMap evil/base-huge")},
		{name: "base-inside", git: base(inside + "/evil/x?ref=main"), applies: forbidding, reason: isInside, proof: unmade("base-inside", "7778")},
		{name: "base-redirects", git: base("http://localhost/evil/redirects?ref=main"), reason: isInside, proof: unmade("base-redirects", "7778")},
		{name: "file-redirects", git: base("http://localhost/evil/redirects/a.yaml"), reason: isInside, proof: unmade("file-redirects", "7778")},

		{name: "submodule-of-bank", git: base("module"), reason: notListed, proof: unrequested("corp/submodule-of-bank")},
		{name: "submodule-inside", git: base("module"), applies: forbidding, reason: isInside, proof: unmade("submodule-inside", "7778")},
		{name: "submodule-redirects", git: base("module"), reason: isInside, proof: unmade("submodule-redirects", "7778")},
	}
	for name, reason := range map[string]string{
		"lfs-inside": isInside, "lfs-redirects": isInside, "lfs-of-bank": notListed, "lfs-changes": changed, "lfs-huge": "the content has more than ", "lfs-declared-huge": "a file of Git LFS may have 10485760",
	} {
		tried = append(tried, attempt{name: name, git: "-- objects.yaml --\n" + pointer(name), reason: reason, proof: all(unmade(name, "7778"), unrequested("corp/"+name))})
	}
	return tried
}

// submodules are those of evil's repository, by path.
func submodules() map[string]string {
	return map[string]string{
		"submodule-of-bank/module": "http://localhost/corp/submodule-of-bank", "submodule-inside/module": inside + "/x", "submodule-redirects/module": "http://localhost/evil/redirects",
	}
}

// gitmodules is the file with their addresses.
func gitmodules() string {
	text := ""
	for path, address := range submodules() {
		text += fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = %s\n", path, path, address)
	}
	return text
}

// largeContent is a file of Git LFS that an attempt stands for.
func largeContent(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

// oidOf is its digest.
func oidOf(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(largeContent(name)))) }

// pointer is committed in its place.
func pointer(name string) string {
	size := len(largeContent(name))
	if name == "lfs-declared-huge" {
		size = 1 << 40
	}
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oidOf(name), size)
}

// serveEvil responds for evil's own servers. It returns false for paths that are
// of the Git server.
func serveEvil(w http.ResponseWriter, r *http.Request) bool {
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/evil/redirects"):
		http.Redirect(w, r, inside+path, http.StatusFound)
	case path == "/charts/evil/index.yaml":
		_, _ = w.Write([]byte(evilIndex))
	case path == "/evil/charts/index.yaml":
		// A repository of its own: an archive at an address that is not connected to
		// fails the polls of the repository.
		_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries: {inside: [{apiVersion: v2, name: inside, version: 1.0.0, urls: [%q]}]}\n", inside+"/inside-1.0.0.tgz")
	case path == "/charts/evil/huge-1.0.0.tgz":
		_, _ = w.Write(bomb())
	case strings.HasPrefix(path, "/charts/evil/"):
		_, _ = w.Write(chart())
	case strings.HasSuffix(path, "/huge.yaml"), strings.HasSuffix(path, "/lfs-huge"):
		_, _ = io.CopyN(w, zeros{}, 64<<20) // the client leaves
	case strings.HasSuffix(path, "/lfs-changes"):
		_, _ = io.WriteString(w, strings.ReplaceAll(largeContent("lfs-changes"), "ConfigMap", "Namespace"))
	case strings.HasSuffix(path, "/info/lfs/objects/batch"):
		serveBatch(w, r)
	default:
		return false
	}
	return true
}

// serveBatch is the API of evil's server of Git LFS: where the content of each
// attempt is.
func serveBatch(w http.ResponseWriter, r *http.Request) {
	var wanted struct{ Objects []struct{ OID string } }
	if json.NewDecoder(r.Body).Decode(&wanted) != nil || len(wanted.Objects) != 1 {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	oid := wanted.Objects[0].OID
	for name, href := range map[string]string{
		"lfs-inside": inside + "/lfs-inside", "lfs-redirects": "http://localhost/evil/redirects/lfs", "lfs-of-bank": "http://localhost/corp/lfs-of-bank",
		"lfs-changes": "http://localhost/evil/lfs-changes", "lfs-huge": "http://localhost/evil/lfs-huge", "lfs-declared-huge": "http://localhost/evil/lfs-huge",
	} {
		if oid == oidOf(name) {
			_, _ = fmt.Fprintf(w, `{"objects": [{"oid": %q, "actions": {"download": {"href": %q}}}]}`, oid, href)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

// zeros is an endless reader.
type zeros struct{}

// Read gives zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// bomb is an archive of a chart with a file that is a thousand times as large.
func bomb() []byte {
	const size = 64 << 20
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	files := tar.NewWriter(compressed)
	_ = files.WriteHeader(&tar.Header{Name: "huge/values.yaml", Mode: 0o644, Size: size, Typeflag: tar.TypeReg}) // into memory
	_, _ = io.CopyN(files, zeros{}, size)
	_, _ = files.Close(), compressed.Close()
	return packed.Bytes()
}
