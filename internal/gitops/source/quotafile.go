package source

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The folders of entries.
const (
	gitFolder   = "git"
	chartFolder = "charts"
)

// claimsFile has a line for each entry and project that uses it, so that after a
// restart the disk space is that of the same projects. Lines are appended, and
// the file is rewritten at the start and when it has many that do not count.
type claimsFile struct {
	path   string
	file   *os.File
	lines  int
	failed error // the last error, for the sweep to log
}

// add appends a line. Without it the entry is fetched again after a restart.
func (c *claimsFile) add(project, name string) {
	if c.file == nil {
		return
	}
	c.lines++
	if _, err := fmt.Fprintf(c.file, "%q %q\n", name, project); err != nil {
		c.failed = err
	}
}

// rewrite writes the lines that count.
func (c *claimsFile) rewrite(q *quota) error {
	file, err := os.OpenFile(c.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fresh := claimsFile{path: c.path, file: file}
	for project, p := range q.projects {
		for name := range p.lastUsed {
			fresh.add(project, name)
		}
	}
	if err := errors.Join(fresh.failed, os.Rename(c.path+".new", c.path)); err != nil {
		return errors.Join(err, file.Close())
	}
	err = c.close()
	*c = fresh
	return err
}

// close closes the file.
func (c *claimsFile) close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// read returns the projects of each entry. A line that is cut off ends the list:
// it is the last one.
func (c *claimsFile) read() (map[string][]string, error) {
	file, err := os.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	claims := map[string][]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var name, project string
		if _, err := fmt.Sscanf(lines.Text(), "%q %q", &name, &project); err != nil {
			break
		}
		claims[name] = append(claims[name], project)
	}
	return claims, lines.Err()
}

// load counts what an earlier process has left in the folder, and removes what
// belongs to no project: of earlier versions, and incomplete.
func (q *quota) load(folder string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims.path = filepath.Join(folder, "projects")
	claims, err := q.claims.read()
	if err != nil {
		return err
	}
	for _, below := range []string{gitFolder, chartFolder} {
		found, err := os.ReadDir(filepath.Join(folder, below))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, one := range found {
			name := below + "/" + one.Name()
			if err := q.loadEntry(filepath.Join(folder, name), name, claims[name]); err != nil {
				return err
			}
		}
	}
	return q.claims.rewrite(q)
}

// loadEntry counts one entry for its projects. They used it last when it was
// modified last.
func (q *quota) loadEntry(path, name string, projects []string) error {
	if len(projects) == 0 {
		return os.RemoveAll(path)
	}
	var bytes int64
	var used time.Time
	err := filepath.WalkDir(path, func(at string, one fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := one.Info()
		if err != nil {
			return err
		}
		if at == path {
			used = info.ModTime()
		}
		if !one.IsDir() {
			bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		return err
	}
	e := &quotaEntry{bytes: max(bytes, minEntryBytes)}
	q.entries[name] = e
	q.used += e.bytes
	for _, project := range projects {
		q.claim(project, name, used)
	}
	return nil
}
