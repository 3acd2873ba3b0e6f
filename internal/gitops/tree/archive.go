package tree

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// ArchiveLimits bound an archive. Zero is the default of each.
type ArchiveLimits struct {
	// Bytes is all files together: 64 MiB.
	Bytes int64
	// FileBytes is one file: 8 MiB.
	FileBytes int64
	// Files is the number of files and folders: 20,000.
	Files int
	// StripFirst leaves out the first folder, which all files of a chart are
	// in.
	StripFirst bool
}

// withDefaults fills in zero and negative limits.
func (l ArchiveLimits) withDefaults() ArchiveLimits {
	if l.Bytes <= 0 {
		l.Bytes = 64 << 20
	}
	if l.FileBytes <= 0 {
		l.FileBytes = 8 << 20
	}
	if l.Files <= 0 {
		l.Files = 20_000
	}
	return l
}

// FromArchive is a Store of the files in a tar archive, compressed by gzip or
// not. It reads all of it into memory. It refuses, with a [refusal.Refusal], what
// is beyond the limits, links and devices, and paths that are absolute, leave the
// archive, or are in it twice.
func FromArchive(r io.Reader, limits ArchiveLimits) (Store, error) {
	limits = limits.withDefaults()
	buffered := bufio.NewReader(r)
	var plain io.Reader = buffered
	// The magic number of gzip (RFC 1952). Some registries store layers
	// uncompressed.
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		compressed, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("the archive is not compressed by gzip: %w", err)
		}
		plain = compressed
	}
	// Headers count as well, or an archive of nothing but headers has no end.
	u := unpacker{limits: limits, files: map[string]string{}}
	bound := limits.Bytes + int64(limits.Files)*2048
	archive := tar.NewReader(io.LimitReader(plain, bound))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.add(header, archive)
		}
		if err != nil {
			return nil, u.explain(err)
		}
	}
	if len(u.files) == 0 {
		return nil, errors.New("the archive has no files: is it a .tgz of a chart?")
	}
	return NewMemory(u.files), nil
}

// unpacker is an archive that is being read.
type unpacker struct {
	limits ArchiveLimits
	files  map[string]string
	count  int
	bytes  int64
}

// add takes one entry of the archive.
func (u *unpacker) add(header *tar.Header, content io.Reader) error {
	switch header.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeDir:
	// Charts have no links: "helm package" resolves them.
	case tar.TypeSymlink, tar.TypeLink:
		return refusal.New(header.Name, refusal.NotAllowed, "it is a link, which an archive may not have: put the file itself there")
	default:
		return refusal.New(header.Name, refusal.Unsupported, "it is neither a file nor a folder")
	}
	name, err := u.name(header.Name)
	if err != nil {
		return err
	}
	if u.count++; u.count > u.limits.Files {
		return refusal.New("", refusal.TooMany, "it has more than %d files and folders", u.limits.Files)
	}
	if header.Typeflag == tar.TypeDir || name == "" {
		return nil
	}
	return u.file(name, header.Size, content)
}

// file reads one file. Its declared size is checked before anything is read.
func (u *unpacker) file(name string, size int64, content io.Reader) error {
	if _, twice := u.files[name]; twice {
		return refusal.New(name, refusal.Duplicate, "it is in the archive twice")
	}
	if size > u.limits.FileBytes {
		return tooLarge(name, u.limits.FileBytes)
	}
	if u.bytes += size; u.bytes > u.limits.Bytes {
		return refusal.New("", refusal.TooLarge, "it has files of more than %d bytes together", u.limits.Bytes)
	}
	var text strings.Builder
	if _, err := io.Copy(&text, io.LimitReader(content, size)); err != nil {
		return err
	}
	// The tar reader returns less at the end of a truncated archive.
	if int64(text.Len()) != size {
		return io.ErrUnexpectedEOF
	}
	u.files[name] = text.String()
	return nil
}

// name is the path of an entry in the Store.
func (u *unpacker) name(text string) (string, error) {
	if strings.HasPrefix(text, "/") {
		return "", refusal.New(text, refusal.NotAllowed, "it is an absolute path")
	}
	if strings.ContainsAny(text, "\x00\\") {
		return "", refusal.New(text, refusal.Invalid, "it has a character in its name that no file may have")
	}
	for element := range strings.SplitSeq(text, "/") {
		if element == ".." {
			return "", refusal.New(text, refusal.NotAllowed, "it leaves the archive")
		}
	}
	name := strings.TrimPrefix(path.Clean("/"+text), "/")
	if !u.limits.StripFirst {
		return name, nil
	}
	_, rest, _ := strings.Cut(name, "/")
	return rest, nil
}

// explain adds the cause to an error of a reader.
func (u *unpacker) explain(err error) error {
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("the archive is cut off, or larger than %d bytes: %w", u.limits.Bytes, err)
	}
	return fmt.Errorf("the archive cannot be read: %w", err)
}
