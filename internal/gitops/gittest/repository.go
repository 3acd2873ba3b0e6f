package gittest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// Gone is the content that deletes a file in [Repository.Commit].
const Gone = "-"

// Main is the branch that a new repository has.
const Main = "main"

// Repository is a bare repository on a server. It is not for concurrent use.
type Repository struct {
	server  *Server
	name    string
	dir     string
	commits int
}

// Repository makes a repository with a first commit of these files on the
// branch main. It lets clients fetch commits by their ids, as the large hosts
// do; change that with [Repository.Config].
func (s *Server) Repository(t testing.TB, name string, files map[string]string) *Repository {
	t.Helper()
	folder := s.folder(name)
	r := &Repository{server: s, name: folder, dir: filepath.Join(s.root, filepath.FromSlash(folder))}
	must.Do(t, os.MkdirAll(filepath.Dir(r.dir), 0o755))
	r.run(t, nil, "init", "--quiet", "--bare", "--initial-branch="+Main, r.dir)
	r.Config(t, "http.receivepack", "true")
	r.Config(t, "uploadpack.allowReachableSHA1InWant", "true")
	r.Config(t, "gc.auto", "0")
	r.Commit(t, files, "first commit")
	return r
}

// URL is the address for clients.
func (r *Repository) URL() string { return r.server.address(r.name) }

// Dir is the folder of the bare repository.
func (r *Repository) Dir() string { return r.dir }

// Config sets an option of the repository, such as
// uploadpack.allowReachableSHA1InWant.
func (r *Repository) Config(t testing.TB, key, value string) {
	t.Helper()
	r.Git(t, "config", key, value)
}

// Commit adds and changes files on main and gives the id of the commit. The
// content [Gone] deletes a file. Files that are not named stay.
func (r *Repository) Commit(t testing.TB, files map[string]string, message string) string {
	t.Helper()
	return r.CommitTo(t, Main, files, message)
}

// CommitTo is Commit on another branch, which is made where main is if it does
// not exist.
func (r *Repository) CommitTo(t testing.TB, branch string, files map[string]string, message string) string {
	t.Helper()
	var changes bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if files[path] == Gone {
			fmt.Fprintf(&changes, "D %s\n", quote(path))
			continue
		}
		writeFile(&changes, "100644", path, files[path])
	}
	return r.commit(t, branch, message, &changes)
}

// Delete removes files or folders from main and gives the id of the commit.
func (r *Repository) Delete(t testing.TB, paths ...string) string {
	t.Helper()
	var changes bytes.Buffer
	for _, path := range paths {
		fmt.Fprintf(&changes, "D %s\n", quote(path))
	}
	return r.commit(t, Main, "delete", &changes)
}

// Link commits a symbolic link to main.
func (r *Repository) Link(t testing.TB, path, target string) string {
	t.Helper()
	var changes bytes.Buffer
	writeFile(&changes, "120000", path, target)
	return r.commit(t, Main, "link", &changes)
}

// Program commits a file with the mode of a program to main.
func (r *Repository) Program(t testing.TB, path, content string) string {
	t.Helper()
	var changes bytes.Buffer
	writeFile(&changes, "100755", path, content)
	return r.commit(t, Main, "program", &changes)
}

// Submodule commits an entry for a submodule to main, whose commit does not
// exist.
func (r *Repository) Submodule(t testing.TB, path string) string {
	t.Helper()
	return r.SubmoduleAt(t, path, strings.Repeat("ab", 20))
}

// SubmoduleAt is Submodule at a commit. The file .gitmodules is that of the
// caller.
func (r *Repository) SubmoduleAt(t testing.TB, path, commit string) string {
	t.Helper()
	changes := strings.NewReader("M 160000 " + commit + " " + quote(path) + "\n")
	return r.commit(t, Main, "submodule", changes)
}

// Large commits a file of this many zeros to main. It needs no memory and
// little of the disk.
func (r *Repository) Large(t testing.TB, path string, size int64) string {
	t.Helper()
	head := fmt.Sprintf("M 100644 inline %s\ndata %d\n", quote(path), size)
	content := io.LimitReader(zeros{}, size)
	return r.commit(t, Main, "large", io.MultiReader(strings.NewReader(head), content, strings.NewReader("\n")))
}

// zeros is an endless reader, for large files without memory.
type zeros struct{}

// Read gives zeros without end.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Tag makes a light tag of main's commit; an existing one is moved.
func (r *Repository) Tag(t testing.TB, name string) {
	t.Helper()
	r.Git(t, "tag", "--force", name, "refs/heads/"+Main)
}

// AnnotatedTag makes a tag of main's commit that is an object of its own.
func (r *Repository) AnnotatedTag(t testing.TB, name string) {
	t.Helper()
	r.Git(t, "tag", "--force", "--annotate", "--message", "tag "+name, name, "refs/heads/"+Main)
}

// Branch makes a branch of main's commit; an existing one is moved.
func (r *Repository) Branch(t testing.TB, name string) {
	t.Helper()
	r.Git(t, "update-ref", "refs/heads/"+name, "refs/heads/"+Main)
}

// DeleteBranch removes a branch.
func (r *Repository) DeleteBranch(t testing.TB, name string) {
	t.Helper()
	r.Git(t, "update-ref", "-d", "refs/heads/"+name)
}

// Reset moves main to another commit, as a forced push does.
func (r *Repository) Reset(t testing.TB, commit string) {
	t.Helper()
	r.Git(t, "update-ref", "refs/heads/"+Main, commit)
}

// Sign replaces main's commit by one with the signature that sign makes of it, and
// returns its id.
func (r *Repository) Sign(t testing.TB, sign func(commit string) (signature string)) string {
	t.Helper()
	commit := r.Git(t, "cat-file", "commit", Main) + "\n"
	head, message, _ := strings.Cut(commit, "\n\n")
	signed := head + "\ngpgsig " + strings.ReplaceAll(strings.TrimSpace(sign(commit)), "\n", "\n ") + "\n\n" + message
	id := r.run(t, strings.NewReader(signed), "--git-dir", r.dir, "hash-object", "-t", "commit", "-w", "--stdin")
	r.Reset(t, id)
	return id
}

// SignTag makes an annotated tag of main's commit with the signature that sign makes of it.
func (r *Repository) SignTag(t testing.TB, name string, sign func(tag string) (signature string)) {
	t.Helper()
	tag := fmt.Sprintf("object %s\ntype commit\ntag %s\ntagger Test <test@example.com> 1760000000 +0000\n\ntag %s\n", r.Head(t), name, name)
	id := r.run(t, strings.NewReader(tag+sign(tag)), "--git-dir", r.dir, "hash-object", "-t", "tag", "-w", "--stdin")
	r.Git(t, "update-ref", "refs/tags/"+name, id)
}

// Head is the id of main's commit.
func (r *Repository) Head(t testing.TB) string {
	t.Helper()
	return r.Git(t, "rev-parse", "refs/heads/"+Main)
}

// Git runs the git command in the repository and gives what it prints.
func (r *Repository) Git(t testing.TB, args ...string) string {
	t.Helper()
	return r.run(t, nil, append([]string{"--git-dir", r.dir}, args...)...)
}

// commit imports the changes, in the words of git fast-import. fast-import
// needs no working tree, so that a commit is one process.
func (r *Repository) commit(t testing.TB, branch, message string, changes io.Reader) string {
	t.Helper()
	ref := "refs/heads/" + branch
	var head bytes.Buffer
	// The times only have to differ.
	fmt.Fprintf(&head, "commit %s\ncommitter Test <test@example.com> %d +0000\n", ref, 1_760_000_000+60*r.commits)
	fmt.Fprintf(&head, "data %d\n%s\n", len(message), message)
	if r.commits > 0 {
		from := ref
		if !r.exists(ref) {
			from = "refs/heads/" + Main
		}
		fmt.Fprintf(&head, "from %s^0\n", from)
	}
	r.commits++
	r.run(t, io.MultiReader(&head, changes), "--git-dir", r.dir, "fast-import", "--quiet", "--force")
	return r.Git(t, "rev-parse", ref)
}

// exists reports whether a ref exists.
func (r *Repository) exists(ref string) bool {
	return command("--git-dir", r.dir, "rev-parse", "--verify", "--quiet", ref).Run() == nil
}

// run runs git in the repository and fails the test on an error.
func (r *Repository) run(t testing.TB, stdin io.Reader, args ...string) string {
	t.Helper()
	cmd := command(args...)
	cmd.Stdin = stdin
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	return strings.TrimSpace(out.String())
}

// command is git without the options of the user and the machine.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_AUTHOR_DATE=1760000000 +0000",
		"GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.com", "GIT_COMMITTER_DATE=1760000000 +0000")
	return cmd
}

// writeFile writes a file in the format of git fast-import.
func writeFile(w io.Writer, mode, path, content string) {
	fmt.Fprintf(w, "M %s inline %s\ndata %d\n%s\n", mode, quote(path), len(content), content)
}

// quote writes a path as fast-import wants it.
func quote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}
