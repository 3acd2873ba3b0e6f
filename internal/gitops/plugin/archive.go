package plugin

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tree"
)

// The limits of what is sent to a plugin: all files of the repository, because a
// plugin may read those beside the application's folder.
const (
	maxArchiveBytes = 100 << 20
	maxArchiveFiles = 100_000
	maxArchiveDepth = 64
)

// archive is the files of a revision for a plugin. It is written each time that it
// is sent, so that it needs neither memory nor disk.
type archive struct {
	files  tree.Store
	folder string
	// size and checksum are those of the written archive.
	size     int64
	checksum string
}

// newArchive writes the archive once, for the checksum that is sent before it.
func newArchive(files tree.Store, folder string) (*archive, error) {
	a := &archive{files: files, folder: folder}
	sum := sha256.New()
	counter := &countingWriter{to: sum}
	if err := a.write(counter); err != nil {
		return nil, err
	}
	a.size, a.checksum = counter.size, hex.EncodeToString(sum.Sum(nil))
	return a, nil
}

// countingWriter counts what is written.
type countingWriter struct {
	to   io.Writer
	size int64
}

// Write implements io.Writer.
func (w *countingWriter) Write(text []byte) (int, error) {
	w.size += int64(len(text))
	return w.to.Write(text)
}

// write writes the archive. Nothing is compressed: it only crosses a socket of
// the Pod.
func (a *archive) write(to io.Writer) error {
	// The only error is that of a level that does not exist.
	compressed, _ := gzip.NewWriterLevel(to, gzip.NoCompression)
	limits := tree.Limits{FileBytes: maxArchiveBytes, TotalBytes: maxArchiveBytes, Files: maxArchiveFiles, Links: tree.DefaultLimits().Links}
	p := &packer{archive: a, view: tree.NewView(a.files, limits), to: tar.NewWriter(compressed)}
	if err := p.add("", 0); err != nil {
		return err
	}
	if err := p.to.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

// packer writes an archive.
type packer struct {
	*archive
	view  *tree.View
	to    *tar.Writer
	count int
	bytes int64
}

// add writes what is in a folder.
func (p *packer) add(folder string, depth int) error {
	entries, err := p.files.List(folder)
	if err != nil {
		return err
	}
	if depth > maxArchiveDepth {
		return refusal.New(folder, refusal.TooMany, "it is more than %d folders deep, which no plugin gets", maxArchiveDepth)
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name)
		if p.count++; p.count > maxArchiveFiles {
			return refusal.New("", refusal.TooMany, "the repository has more than %d files and folders, which no plugin gets: use a smaller one", maxArchiveFiles)
		}
		switch entry.Kind {
		case tree.Folder:
			if err = p.to.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}); err == nil {
				err = p.add(name, depth+1)
			}
		case tree.File:
			err = p.file(name, entry)
		case tree.Link:
			err = p.link(name)
		case tree.Submodule:
			if p.isInside(name) {
				err = refusal.New(name, refusal.Unsupported, "it is a submodule, which no plugin gets: put its files into the repository")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isInside reports whether a path is in the application's folder. What is missing
// there would make its objects incomplete; elsewhere it may be missing.
func (p *packer) isInside(name string) bool {
	return p.folder == "" || name == p.folder || strings.HasPrefix(name, p.folder+"/")
}

// file writes a file. In the application's folder it is read as a render reads
// it, so that a file that Git LFS keeps is refused.
func (p *packer) file(name string, entry tree.Entry) error {
	if p.bytes += entry.Size; p.bytes > maxArchiveBytes {
		return refusal.New(name, refusal.TooLarge, "the repository has files of more than %d bytes together, which no plugin gets: use a smaller one", maxArchiveBytes)
	}
	var content []byte
	var err error
	if p.isInside(name) {
		content, err = p.view.Read(name)
	} else {
		content, err = p.files.Read(name, maxArchiveBytes)
	}
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}
	if entry.Executable {
		header.Mode = 0o755
	}
	if err := p.to.WriteHeader(header); err != nil {
		return err
	}
	_, err = p.to.Write(content)
	return err
}

// maxTarget is longer than the path of any file.
const maxTarget = 4096

// link writes a link. One that leaves the repository is refused in the
// application's folder, and left out elsewhere: the plugin's server refuses an
// archive with it.
func (p *packer) link(name string) error {
	target, err := p.files.Read(name, maxTarget)
	if err != nil {
		return err
	}
	to := string(target)
	if below := path.Join(path.Dir(name), to); path.IsAbs(to) || below == ".." || strings.HasPrefix(below, "../") {
		if p.isInside(name) {
			return refusal.New(name, refusal.NotAllowed, "it is a link that leaves the repository")
		}
		return nil
	}
	return p.to.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777})
}
