package main

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Metadata of the package, in both formats.
const (
	summary     = "GitOps runtime and ingress controller for Kubernetes"
	description = "Slipway deploys applications from Git to Kubernetes and serves their traffic.\nThe services slipway-edge, slipway-agent and slipway-platform are not started by\nthe installation: their options are in /etc/slipway."
	homepage    = "https://slipway.dev"
	maintainer  = "Slipway <packages@slipway.dev>"
)

// file is an installed file.
type file struct {
	path    string
	mode    uint32
	content []byte
	// config is set for a file that an upgrade keeps if it was changed.
	config bool
}

// contents are the files of a package, sorted by path, and the scripts that run
// after its installation and before its removal.
type contents struct {
	files           []file
	install, remove string
}

// collect reads the files of the program and the units.
func collect(given options) (contents, error) {
	var made contents
	add := func(from, to string, mode uint32, config bool) error {
		content, err := os.ReadFile(from)
		made.files = append(made.files, file{path: to, mode: mode, content: content, config: config})
		return err
	}
	if err := add(filepath.Join(given.files, "slipway"), "/usr/bin/slipway", 0o755, false); err != nil {
		return made, err
	}
	if err := add(filepath.Join(given.files, "LICENSE"), "/usr/share/doc/slipway/copyright", 0o644, false); err != nil {
		return made, err
	}
	if err := add(filepath.Join(given.units, "slipway.sysusers"), "/usr/lib/sysusers.d/slipway.conf", 0o644, false); err != nil {
		return made, err
	}
	for _, role := range []string{"edge", "agent", "platform"} {
		unit := "slipway-" + role + ".service"
		if err := add(filepath.Join(given.units, unit), "/usr/lib/systemd/system/"+unit, 0o644, false); err != nil {
			return made, err
		}
		// The folder is for the group of the services only: options can have credentials.
		if err := add(filepath.Join(given.units, role+".yaml"), "/etc/slipway/"+role+".yaml", 0o644, true); err != nil {
			return made, err
		}
	}
	if err := made.addShare(filepath.Join(given.files, "share")); err != nil {
		return made, err
	}
	for name, script := range map[string]*string{"install.sh": &made.install, "remove.sh": &made.remove} {
		text, err := os.ReadFile(filepath.Join(given.units, name))
		if err != nil {
			return made, err
		}
		*script = string(text)
	}
	slices.SortFunc(made.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return made, nil
}

// addShare adds completions and man pages. Man pages are compressed, as both
// distributions expect them.
func (made *contents) addShare(root string) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		to := path.Join("/usr/share", filepath.ToSlash(below))
		if strings.HasPrefix(to, "/usr/share/man/") {
			to += ".gz"
			if content, err = compress(content, gzip.BestCompression); err != nil {
				return err
			}
		}
		made.files = append(made.files, file{path: to, mode: 0o644, content: content})
		return nil
	})
}

// compress returns a content in gzip, without a time and a name.
func compress(content []byte, level int) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	err = writer.Close()
	return packed.Bytes(), err
}
