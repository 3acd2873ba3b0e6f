package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// The limits of a configuration file. Reaching one is an error: a larger file
// is not a configuration.
const (
	// maxFileSize bounds a configuration file.
	maxFileSize = 1 << 20
	// maxDepth bounds the nesting of a file; no option is that deep.
	maxDepth = 16
)

// fileNode is a value of a file of any format. The parsers of YAML and TOML
// produce it, so that all checks are shared.
type fileNode struct {
	key      string
	line     int // of the key; 0 when unknown
	shape    shape
	values   []string
	children []fileNode
}

// SearchDirs lists the directories that may have a configuration file, the
// user's own first, then that of the machine. A relative XDG_CONFIG_HOME is
// ignored, as the XDG specification requires.
func SearchDirs(environ []string) []string {
	var dirs []string
	if home := lookupVariable(environ, "XDG_CONFIG_HOME"); filepath.IsAbs(home) {
		dirs = append(dirs, filepath.Join(home, "slipway"))
	}
	return append(dirs, "/etc/slipway")
}

// lookupVariable returns the value of an environment variable, or "".
func lookupVariable(environ []string, name string) string {
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// findFile returns the configuration file in the first directory that has one,
// or "". Two in one directory are an error: the choice would be arbitrary.
func findFile(role role, dirs []string) (string, error) {
	for _, dir := range dirs {
		var found []string
		for _, name := range role.fileNames() {
			path := filepath.Join(dir, name)
			// A directory that exists but cannot be read is an error: its file
			// might be the one that the user relies on.
			if _, err := os.Stat(path); err == nil {
				found = append(found, path)
			} else if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				return "", fmt.Errorf("cannot look for a configuration file: %w", err)
			}
		}
		if len(found) > 1 {
			return "", fmt.Errorf("there are several configuration files: %s: keep one, or choose with --configFile", strings.Join(found, ", "))
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return "", nil
}

// readFile returns the settings of a file, and all problems of it.
func readFile(path string) ([]setting, []error) {
	content, err := readBounded(path)
	if err != nil {
		return nil, []error{fmt.Errorf("configuration file %s: %w", path, err)}
	}
	return parseFile(path, content)
}

// readBounded reads a regular file of at most maxFileSize. It opens without
// blocking, because opening a named pipe would wait for its writer for ever.
func readBounded(path string) ([]byte, error) {
	file, err := os.OpenFile(filepath.Clean(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			return nil, cause // the path is in the message already
		}
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read: nothing can be lost
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFileSize {
		return nil, fmt.Errorf("larger than %d bytes", maxFileSize)
	}
	return content, nil
}

// parseFile returns the settings in the text of a file; the extension selects
// the format. A syntax error ends parsing, other problems are collected.
func parseFile(path string, content []byte) ([]setting, []error) {
	var roots []fileNode
	var err error
	switch extension := strings.ToLower(filepath.Ext(path)); extension {
	case ".yaml", ".yml":
		roots, err = parseYAML(content)
	case ".toml":
		roots, err = parseTOML(content)
	default:
		err = fmt.Errorf("the name ends in %s: use .yaml, .yml or .toml", quoted(extension))
	}
	if err != nil {
		return nil, []error{fmt.Errorf("configuration file %s: %w", path, err)}
	}
	reader := treeReader{file: path}
	reader.read(nil, roots)
	return reader.settings, reader.findings
}

// treeReader flattens the tree of a file into settings, groups included, in the
// order of the file.
type treeReader struct {
	file     string
	settings []setting
	findings []error
}

// read appends the settings of nodes below a path. Depth is bounded by the
// parsers.
func (t *treeReader) read(parent []string, nodes []fileNode) {
	seen := map[string]setting{}
	for _, node := range nodes {
		path := append(append([]string(nil), parent...), node.key)
		given := setting{
			spelling: strings.Join(path, "."),
			path:     path,
			shape:    node.shape,
			values:   node.values,
			origin:   origin{source: fromFile, file: t.file, line: node.line},
		}
		// Names are case-insensitive, so that the file and the environment
		// agree.
		key := strings.ToLower(node.key)
		if earlier, twice := seen[key]; twice {
			t.findings = append(t.findings, sameKey(earlier, given))
			continue
		}
		seen[key] = given
		t.settings = append(t.settings, given)
		t.read(path, node.children)
	}
}

// sameKey is the error for two keys of one mapping that are the same option.
// YAML itself forbids a repeated key; two spellings of one key would be decided
// by chance.
func sameKey(a, b setting) error {
	if a.spelling == b.spelling {
		return fmt.Errorf("%s %s is set before, %s: keep one of them", b.spelling, b.origin, a.origin)
	}
	return fmt.Errorf("%s %s and %s %s are the same option: keep one of them", a.spelling, a.origin, b.spelling, b.origin)
}

// inQuotes matches the quotations of a parser's message, also an unterminated
// one.
var inQuotes = regexp.MustCompile(`"[^"]*"?|'[^']*'?|` + "`[^`]*`?")

// withoutQuotes replaces the quotations of a parser's message: the line may
// contain a secret. The line number stays, and so does punctuation, which is what
// most messages are about.
func withoutQuotes(message string) string {
	return inQuotes.ReplaceAllStringFunc(message, func(quotation string) string {
		inner := strings.Trim(quotation, quotation[:1])
		if inner == `\n` {
			return "the end of the line"
		}
		if len(inner) == 1 && strings.Contains("=:.,[]{}#\"'", inner) {
			return quotation
		}
		return "another text"
	})
}
