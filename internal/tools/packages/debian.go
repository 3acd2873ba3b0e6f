package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// debian returns the package for Debian: an ar archive with the version of the
// format, the control files, and the files. See deb(5).
func debian(made contents, given options, built time.Time) ([]byte, error) {
	made.files = slices.Clone(made.files)
	for i := range made.files {
		// Debian's zsh searches another folder.
		made.files[i].path = strings.Replace(made.files[i].path, "/zsh/site-functions/", "/zsh/vendor-completions/", 1)
	}
	slices.SortFunc(made.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	data, err := tarOf(made.files, built)
	if err != nil {
		return nil, err
	}
	control, err := tarOf(controlFiles(made, given), built)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	archive.WriteString("!<arch>\n")
	for _, member := range []struct {
		name    string
		content []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", control}, {"data.tar.gz", data}} {
		fmt.Fprintf(&archive, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, built.Unix(), 0, 0, "100644", len(member.content))
		archive.Write(member.content)
		// Members begin at even offsets.
		if len(member.content)%2 == 1 {
			archive.WriteByte('\n')
		}
	}
	return archive.Bytes(), nil
}

// controlFiles returns the files about the package.
func controlFiles(made contents, given options) []file {
	var sums, config strings.Builder
	size := 0
	for _, one := range made.files {
		size += (len(one.content) + 1023) / 1024
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(one.content), strings.TrimPrefix(one.path, "/"))
		if one.config {
			config.WriteString(one.path + "\n")
		}
	}
	control := fmt.Sprintf("Package: slipway\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\nSection: net\nPriority: optional\nHomepage: %s\nDescription: %s\n %s\n",
		given.version, given.architecture, maintainer, size, homepage, summary, strings.ReplaceAll(description, "\n", "\n "))
	return []file{
		{path: "/conffiles", mode: 0o644, content: []byte(config.String())},
		{path: "/control", mode: 0o644, content: []byte(control)},
		{path: "/md5sums", mode: 0o644, content: []byte(sums.String())},
		{path: "/postinst", mode: 0o755, content: []byte(made.install)},
		{path: "/prerm", mode: 0o755, content: []byte(made.remove)},
	}
}

// tarOf returns sorted files and the folders above them as a compressed tar.
func tarOf(files []file, built time.Time) ([]byte, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	known := map[string]bool{"/": true}
	var folder func(name string) error
	folder = func(name string) error {
		if known[name] {
			return nil
		}
		known[name] = true
		if err := folder(path.Dir(name)); err != nil {
			return err
		}
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "." + name + "/", Mode: 0o755, ModTime: built, Format: tar.FormatGNU, Uname: "root", Gname: "root"})
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, ModTime: built, Format: tar.FormatGNU, Uname: "root", Gname: "root"}); err != nil {
		return nil, err
	}
	for _, one := range files {
		if err := folder(path.Dir(one.path)); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "." + one.path, Mode: int64(one.mode), Size: int64(len(one.content)), ModTime: built, Format: tar.FormatGNU, Uname: "root", Gname: "root"}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(one.content); err != nil {
			return nil, err
		}
	}
	// The trailer goes before the compression.
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return compress(packed.Bytes(), gzip.DefaultCompression)
}
