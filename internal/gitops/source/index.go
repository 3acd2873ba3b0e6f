package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source/helmindex"
)

// Indexes reads indexes of Helm repositories. A render.Renderer does that in a
// worker.
type Indexes interface {
	// CompactIndex passes the compact form of an index to take, piece by piece.
	// A *[refusal.Refusal] is an index beyond a limit. It is read in the turn of
	// a project.
	CompactIndex(ctx context.Context, project string, index io.ReaderAt, limit int64, take func([]byte) error) error
}

// ownIndexes reads indexes in this process, for commands that one user runs
// with their own sources.
type ownIndexes struct{}

// CompactIndex reads the index.
func (ownIndexes) CompactIndex(_ context.Context, _ string, index io.ReaderAt, limit int64, take func([]byte) error) error {
	compact, err := helmindex.Compact(io.NewSectionReader(index, 0, 1<<62), limit)
	if err != nil {
		return err
	}
	return take(compact)
}

// helmIndex is the state of an index whose compact form is on the disk.
type helmIndex struct {
	id   int // of the content, unique
	etag string
	at   time.Time
	// refused is why the index is not used. It is cached as an index is, because
	// the next attempt would transfer and read it again.
	refused error
}

// versionsKey is one chart of an index.
type versionsKey struct {
	index int
	chart string
}

// versionsOf is the versions of a chart, by an index that is young enough.
func (c *charts) versionsOf(ctx context.Context, source *chartSource, maxAge time.Duration) ([]helmindex.Entry, error) {
	c.mu.Lock()
	cached := c.repository(source.key)
	index := cached.index
	c.mu.Unlock()
	// The serial number is part of the key, so that a call after invalidate does
	// not join a request that was sent before.
	if maxAge <= 0 || time.Since(index.at) > maxAge {
		var err error
		index, err = doOnce(ctx, c, fmt.Sprintf("index %d", cached.serial), source.name(), func(ctx context.Context) (helmIndex, error) {
			return c.download(ctx, source.key, cached)
		})
		if err != nil {
			return nil, err
		}
	}
	if index.refused != nil {
		return nil, index.refused
	}
	key := versionsKey{index.id, source.Chart}
	owner := source.key.folder()
	if found, ok := c.versions.Get(key); ok {
		c.cache.quota.touch(projectOf(ctx), entryOf(indexName(owner)))
		return found, nil
	}
	found, err := c.cache.versions(projectOf(ctx), owner, source.Chart)
	if errors.Is(err, errDamaged) {
		// The file was evicted. Without its ETag the index is transferred again.
		c.mu.Lock()
		cached.index = helmIndex{}
		c.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errorf(NotFound, "", "there is no chart %q in the index", source.Chart)
	}
	size := int64(0)
	for _, entry := range found {
		size += int64(len(entry.Version)+len(entry.Digest)) + 96
		for _, url := range entry.URLs {
			size += int64(len(url))
		}
	}
	c.versions.Add(key, found, size)
	return found, nil
}

// download requests the index and compacts it. The ETag of the last one saves
// the transfer of an unchanged index, and a response that is not an index does
// not replace the last good one.
func (c *charts) download(ctx context.Context, key chartKey, cached *chartRepository) (helmIndex, error) {
	c.mu.Lock()
	last := cached.index
	c.serial++
	id := c.serial
	c.mu.Unlock()
	fresh := helmIndex{id: last.id, etag: last.etag, at: time.Now()}
	changed, err := c.transfer(ctx, key, &fresh)
	switch {
	case IsKind(err, Refused):
		fresh.etag, fresh.refused = last.etag, err
	case err != nil:
		return helmIndex{}, err
	case changed:
		fresh.id = id
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cached.index = fresh
	return fresh, nil
}

// transfer brings the compact form of an index to the disk. It is false if the
// server has no other index than the last one.
func (c *charts) transfer(ctx context.Context, key chartKey, index *helmIndex) (changed bool, err error) {
	file, err := os.CreateTemp(c.cache.folder, "tmp_*")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	limit := c.sources.options.Limits.IndexBytes
	reception := c.sources.quota.begin(projectOf(ctx), "")
	defer reception.end("", 0)
	err = c.sources.exchange(ctx, "index", key.address.String(), func(ctx context.Context) (int64, error) {
		header := http.Header{}
		if index.etag != "" {
			header.Set("If-None-Match", index.etag)
		}
		return c.get(ctx, key, key.address.URL().JoinPath("index.yaml"), header, func(response *http.Response) (int64, error) {
			if response.StatusCode == http.StatusNotModified {
				return 0, nil
			}
			index.etag, changed = response.Header.Get("ETag"), true
			size, err := io.Copy(file, io.LimitReader(reception.reader(response.Body), limit+1))
			if err == nil && size > limit {
				err = errorf(Refused, "", "its index has more than %d bytes: raise sources.indexLimit of the agent, or split the repository", limit)
			}
			return size, err
		})
	})
	if err != nil || !changed {
		return false, err
	}
	return true, c.compact(ctx, key, file)
}

// compact writes the compact form of an index to the disk. It gets its name when
// it is complete, so that what is no index cannot replace a good one.
func (c *charts) compact(ctx context.Context, key chartKey, index io.ReaderAt) error {
	file, err := os.CreateTemp(c.cache.folder, "tmp_*")
	if err != nil {
		return err
	}
	project := projectOf(ctx)
	reception := c.sources.quota.begin(project, "")
	err = c.sources.options.Indexes.CompactIndex(ctx, project, index, c.sources.options.Limits.IndexBytes/2, func(part []byte) error {
		if err := reception.add(int64(len(part))); err != nil {
			return err
		}
		_, err := file.Write(part)
		return err
	})
	if err != nil {
		err = indexError(err, key.address.String())
	}
	return c.cache.place(reception, file, indexName(key.folder()), err)
}

// indexError keeps refusals of limits. Every other error means that the file is
// no index, which a retry may cure: a proxy or a login page can be in the way.
func indexError(err error, name string) error {
	if full, ok := errors.AsType[*Error](err); ok {
		return full
	}
	if refused, ok := errors.AsType[*refusal.Refusal](err); ok {
		return &Error{Kind: Refused, Repository: name, Message: "its index is refused: " + refused.Message, Err: err}
	}
	return &Error{Kind: Unreachable, Repository: name, Message: fmt.Sprintf("its index cannot be read: %v: does the address lead to a Helm repository?", err), Err: err}
}
