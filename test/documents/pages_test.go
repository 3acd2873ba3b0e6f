package documents

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// folder is where the pages are.
const folder = "../../docs/install"

// step is what happens with a block of a page.
type step struct {
	// begins is how the block begins, so that the table follows the page.
	begins string
	// replaced are pairs of texts: what the reader has to fill in, and what is filled in.
	replaced []string
	// pem has the certificate of the authority fill in what the block leaves out of one,
	// and account the ID of the account.
	pem, account bool
	// answers are typed at the prompts of the block.
	answers string
	// fails is set when the block has to end with exit code 1.
	fails bool
	// says are texts that have to be shown.
	says []string
	// fresh removes what the blocks before have installed: the block is another way.
	fresh bool
	// before makes what the page takes for granted, after looks at what came of it.
	before, after func(t *testing.T, w *world, dir string)
	// file is where a block of text is written to, which is what the page asks to do
	// with it.
	file string
	// elsewhere is why a block cannot run here. The paragraph before it has to show
	// the reader where it runs.
	elsewhere string
	// shown is set for a block that is not run: it shows what the block before prints,
	// or what is in the file.
	shown bool
}

// block is a fenced block, with the paragraph before it.
type block struct{ language, text, before string }

// blocksOf are the blocks of a page.
func blocksOf(page string) (blocks []block) {
	parts := strings.Split("\n"+page, "\n```")
	for i := 1; i < len(parts); i += 2 {
		language, text, _ := strings.Cut(parts[i], "\n")
		paragraphs := strings.Split(strings.TrimRight(parts[i-1], "\n"), "\n\n")
		blocks = append(blocks, block{language, text, paragraphs[len(paragraphs)-1]})
	}
	return blocks
}

// shortPages are those that are followed when not all are asked for.
func shortPages() []string {
	return []string{"README.md", "tunnel.md", "preflight.md", "controllers/slipway.md", "terraform.md", "values.md"}
}

// TestInstallPages: each page of docs/install is followed from its beginning to its
// end. All of them take minutes: INSTALL_PAGES=all has them, as make install-pages
// does.
func TestInstallPages(t *testing.T) {
	pages, table := readPages(t), allSteps()
	names := shortPages()
	if os.Getenv("INSTALL_PAGES") == "all" {
		names = slices.Sorted(maps.Keys(pages))
	}
	w := newWorld(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if len(pages[name]) != len(table[name]) {
				t.Fatal("the table has other blocks than the page: see TestTable")
			}
			w.follow(t, pages[name], table[name])
		})
	}
}

// TestTable: the table knows each block of each page, in order.
func TestTable(t *testing.T) {
	pages, table := readPages(t), allSteps()
	for name := range table {
		if _, found := pages[name]; !found {
			t.Errorf("the table has %s, and there is no such page", name)
		}
	}
	for name, blocks := range pages {
		if len(blocks) != len(table[name]) {
			t.Errorf("%s has %d blocks, and the table %d", name, len(blocks), len(table[name]))
			continue
		}
		for i, one := range blocks {
			if begins := table[name][i].begins; begins == "" || !strings.HasPrefix(one.text, begins) {
				t.Errorf("%s: block %d does not begin with %q:\n%s", name, i+1, begins, one.text)
			}
		}
	}
}

// readPages reads the blocks of all pages.
func readPages(t *testing.T) map[string][]block {
	t.Helper()
	pages := map[string][]block{}
	for _, pattern := range []string{"*.md", "controllers/*.md"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("there are no pages: %v", err)
		}
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			name := must.Get(filepath.Rel(folder, file))(t)
			pages[name] = blocksOf(string(text))
		}
	}
	return pages
}

// follow runs a page, block by block.
func (w *world) follow(t *testing.T, blocks []block, steps []step) {
	t.Helper()
	dir := w.begin(t)
	last := ""
	for i, one := range blocks {
		wanted := steps[i]
		if wanted.fresh {
			w.takeAway(t)
			t.Logf("block %d begins fresh", i+1)
		}
		if wanted.before != nil {
			wanted.before(t, w, dir)
		}
		last = w.try(t, dir, one, wanted, last)
		if wanted.after != nil {
			wanted.after(t, w, dir)
		}
	}
}

// begin gives a test a directory, and a home that is signed in. What it installs,
// commits and writes to either is gone when it ends.
func (w *world) begin(t *testing.T) (dir string) {
	t.Helper()
	dir, signedIn := t.TempDir(), w.home
	w.home = filepath.Join(t.TempDir(), "home")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", signedIn, w.home).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out) // with who may read what
	}
	hosts, commit := must.Get(os.ReadFile(w.hosts))(t), w.git.repository.Head(t)
	t.Cleanup(func() {
		w.home = signedIn
		w.takeAway(t)
		w.git.repository.Reset(t, commit)
		writeFile(t, w.hosts, string(hosts))
	})
	// Before the runtime is taken away, and its Pods with it.
	t.Cleanup(func() {
		if t.Failed() {
			w.node.ShowLogs(t)
		}
	})
	return dir
}

// try runs a block, and returns what was shown.
func (w *world) try(t *testing.T, dir string, one block, wanted step, last string) string {
	t.Helper()
	text := one.text
	for i := 0; i < len(wanted.replaced); i += 2 {
		if !strings.Contains(text, wanted.replaced[i]) {
			t.Errorf("there is no %q in\n%s", wanted.replaced[i], one.text)
		}
		text = strings.ReplaceAll(text, wanted.replaced[i], wanted.replaced[i+1])
	}
	if wanted.pem {
		text = w.fillCertificates(text)
	}
	if wanted.account {
		text = strings.ReplaceAll(text, "0123456789abcdef01234567", w.account(t))
	}
	switch {
	case wanted.elsewhere != "":
		if !strings.Contains(strings.ToLower(one.before), "at your provider") && !strings.Contains(one.before, "In a checkout of Slipway") {
			t.Errorf("the paragraph before does not say where it runs:\n%s\n%s", one.before, one.text)
		}
		t.Logf("not run here: %s:\n%s", wanted.elsewhere, one.text)
		return last
	case wanted.shown && wanted.file != "":
		content, err := os.ReadFile(filepath.Join(dir, wanted.file))
		if err != nil || squeezed(string(content)) != squeezed(text) {
			t.Errorf("%s has %v\n%s\nand not\n%s", wanted.file, err, content, text)
		}
		return last
	case wanted.shown:
		for line := range strings.Lines(text) {
			if !strings.Contains(squeezed(last), squeezed(line)) {
				t.Errorf("%q is not shown in\n%s", line, programs.Tail(last))
			}
		}
		return last
	case wanted.file != "":
		writeFile(t, filepath.Join(dir, wanted.file), text)
		return last
	case one.language != "sh":
		t.Fatalf("nothing is done with the block\n%s", one.text)
	}
	code, shown := w.shell(t, shellCall{text: text, dir: dir, answers: wanted.answers})
	if failed := code != 0; failed != wanted.fails || code > 1 {
		t.Fatalf("%s\nended with %d:\n%s", text, code, programs.Tail(shown))
	}
	for _, part := range wanted.says {
		if !strings.Contains(squeezed(shown), squeezed(part)) {
			t.Errorf("%s\ndoes not say %q:\n%s", text, part, programs.Tail(shown))
		}
	}
	return shown
}

// fillCertificates writes the lines of a certificate for the one that stands for them.
func (w *world) fillCertificates(text string) string {
	lines := strings.Split(strings.TrimSpace(string(w.authority.Cert)), "\n")
	before, _, _ := strings.Cut(text, "…")
	indent := before[strings.LastIndex(before, "\n")+1:]
	return strings.ReplaceAll(text, "…", strings.Join(lines[1:len(lines)-1], "\n"+indent))
}

func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }
