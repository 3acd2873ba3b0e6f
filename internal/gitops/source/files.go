package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"time"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// maxFileBytes bounds a single file, as a render bounds each of its files.
// maxFilesBytes is how much of them is in memory. They are not kept on the disk:
// they are few and small, and after a restart they are requested again.
const (
	maxFileBytes  = 10 << 20
	maxFilesBytes = 64 << 20
)

// cachedFile is the last response for a file.
type cachedFile struct {
	store        tree.Store
	digest, etag string
	at           time.Time
}

// resolveFile is a file at an address, such as the manifest of a release. Its
// digest is the revision, because the content at an address can change.
func (c *charts) resolveFile(ctx context.Context, of project.Admitted, maxAge time.Duration) (*Resolved, error) {
	key := c.sources.keyOf(of)
	name := key.address.String()
	known, found := c.files.Get(key)
	if !found || maxAge <= 0 || time.Since(known.at) > maxAge {
		var err error
		known, err = doOnce(ctx, c, "file "+key.folder(), name, func(ctx context.Context) (*cachedFile, error) {
			return c.downloadFile(ctx, key, known)
		})
		if err != nil {
			return nil, toError(err, name)
		}
	}
	return &Resolved{Revision: known.digest, Store: known.store}, nil
}

// downloadFile requests a file. The ETag of the last one, which may be nil, saves
// the transfer of an unchanged file.
func (c *charts) downloadFile(ctx context.Context, key cacheKey, last *cachedFile) (*cachedFile, error) {
	fresh := &cachedFile{at: time.Now()}
	err := c.sources.exchange(ctx, "file", key.address.String(), func(ctx context.Context) (int64, error) {
		header := http.Header{}
		if last != nil && last.etag != "" {
			header.Set("If-None-Match", last.etag)
		}
		return c.get(ctx, chartKey{cacheKey: key}, key.address.URL(), header, func(response *http.Response) (int64, error) {
			if response.StatusCode == http.StatusNotModified && last != nil {
				fresh.store, fresh.digest, fresh.etag = last.store, last.digest, last.etag
				return 0, nil
			}
			content, err := readFile(response)
			sum := sha256.Sum256(content)
			fresh.digest, fresh.etag = hex.EncodeToString(sum[:]), response.Header.Get("ETag")
			fresh.store = tree.NewMemory(map[string]string{job.FileName: string(content)})
			return int64(len(content)), err
		})
	})
	if err != nil {
		return nil, err
	}
	c.files.Put(key, fresh, tree.BytesInMemory(fresh.store)+repositoryBaseBytes)
	return fresh, nil
}

// readFile is the content of a response. A page for people, such as that of a
// login, is no file.
func readFile(response *http.Response) ([]byte, error) {
	if response.StatusCode != http.StatusOK || strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
		return nil, errorf(Unreachable, "", "the server responds with a web page and no file: check the address")
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		err = errorf(Refused, "", "it has more than %d bytes: copy a smaller file into the repository", maxFileBytes)
	}
	return content, err
}
