package gittest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// lfsPath is in the address of every request for Git LFS.
const lfsPath = "/info/lfs/"

// Pointer keeps a content as a server of Git LFS does, for all repositories, and
// returns the file that is committed in its place.
func (s *Server) Pointer(content string) string {
	oid := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lfs == nil {
		s.lfs = map[string]string{}
	}
	s.lfs[oid] = content
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(content))
}

// serveLFS is the batch API of Git LFS, and the contents that it names. It is
// written by the specification
// (https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md).
func (s *Server) serveLFS(w http.ResponseWriter, r *http.Request) {
	base, rest, _ := strings.Cut(r.URL.Path, lfsPath)
	if rest != "objects/batch" {
		s.mu.Lock()
		content, found := s.lfs[path.Base(rest)]
		s.mu.Unlock()
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(content))
		return
	}
	const media = "application/vnd.git-lfs+json"
	type object map[string]any
	var wanted struct {
		Operation string
		Objects   []struct {
			OID  string
			Size int64
		}
	}
	if r.Method != http.MethodPost || r.Header.Get("Accept") != media || r.Header.Get("Content-Type") != media ||
		json.NewDecoder(r.Body).Decode(&wanted) != nil || wanted.Operation != "download" {
		http.Error(w, `{"message": "it is no request for objects"}`, http.StatusUnprocessableEntity)
		return
	}
	found := []object{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range wanted.Objects {
		described := object{"oid": one.OID, "size": one.Size}
		if content, known := s.lfs[one.OID]; known && int64(len(content)) == one.Size {
			described["actions"] = object{"download": object{"href": s.web.URL + base + lfsPath + "objects/" + one.OID}}
		} else {
			described["error"] = object{"code": http.StatusNotFound, "message": "the object does not exist"}
		}
		found = append(found, described)
	}
	w.Header().Set("Content-Type", media)
	_ = json.NewEncoder(w).Encode(object{"transfer": "basic", "objects": found})
}

// LFSAuthenticate makes a host of SSH respond to git-lfs-authenticate. A request
// for another repository, or for writing, fails.
func (r *Repository) LFSAuthenticate(t testing.TB, response string) {
	t.Helper()
	program := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = '%s download' ] || exit 1\ncat <<'END'\n%s\nEND\n", r.dir, response)
	must.Do(t, os.WriteFile(filepath.Join(r.server.ssh.folder, "git-lfs-authenticate"), []byte(program), 0o700)) //nolint:gosec // It has to be executable.
}
