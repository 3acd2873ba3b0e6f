package archtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// CheckImports applies the table to the module in dir. It reports
//
//   - a package without a row
//   - an import that the row does not list
//   - a banned package, with the chain of imports that leads to it
//   - folders that import each other
//
// An error means that the module could not be read at all.
func CheckImports(ctx context.Context, table Table, dir string) ([]finding.Finding, error) {
	g, err := load(ctx, dir)
	if err != nil {
		return nil, err
	}
	findings := slices.Clone(g.broken)
	for _, pkg := range g.ours {
		row, ok := table.row(pkg)
		if !ok {
			findings = append(findings, violation(pkg, "is not in the table; add a row to HouseTable in internal/archtest/table.go "+
				"and to docs/architecture.md with its allowed imports"))
			continue
		}
		banned := map[string]bool{}
		for _, ban := range slices.Concat(row.Never, table.Never) {
			if chain := table.chain(g, pkg, ban); chain != nil {
				banned[chain[1]] = true
				findings = append(findings, bannedFinding(chain, ban))
			}
		}
		for _, imported := range g.imports[pkg] {
			// A banned import is reported once, with the reason of the ban.
			if !banned[imported] && !row.allows(g, imported) {
				findings = append(findings, violation(pkg, "must not import %s: its row allows %s; move the code, "+
					"or change the table and docs/architecture.md with a decision", imported, row.allowed(imported)))
			}
		}
	}
	findings = append(findings, cycles(g)...)
	sortFindings(findings)
	return findings, nil
}

// bannedFinding describes a violated ban with the chain of imports that leads
// to it.
func bannedFinding(chain []string, ban Ban) finding.Finding {
	pkg, target := chain[0], chain[len(chain)-1]
	how := ""
	if len(chain) > 2 {
		how = " (" + strings.Join(chain, " -> ") + ")"
	}
	return violation(pkg, "must never use %s%s: %s", target, how, ban.Reason)
}

// row returns the most specific row for a package, which is the one with the
// longest pattern.
func (t Table) row(pkg string) (Row, bool) {
	var best Row
	for _, row := range t.Rows {
		// The zero Row has an empty pattern, so any match replaces it.
		if match(row.Packages, pkg) && len(row.Packages) > len(best.Packages) {
			best = row
		}
	}
	return best, best.Packages != ""
}

// allows reports whether the row permits a direct import. A package may always
// import the packages of its own row and the standard library.
func (r Row) allows(g *graph, imported string) bool {
	if isOurs(imported) {
		return match(r.Packages, imported) || matchAny(r.MayUse, imported)
	}
	return g.isStandard(imported) || matchAny(r.Foreign, imported)
}

// allowed formats the list of the row that applies to an import.
func (r Row) allowed(imported string) string {
	list := r.Foreign
	absent := "no code but the standard library"
	if isOurs(imported) {
		list = r.MayUse
		absent = "nothing else of this module"
	}
	if len(list) == 0 {
		return absent
	}
	return "only " + strings.Join(list, ", ")
}

// forbids reports whether a ban applies to a package. It does not apply to the
// banned package itself and to its exceptions.
func (t Table) forbids(pkg string, ban Ban) bool {
	if match(ban.Package, pkg) || slices.ContainsFunc(strings.Fields(ban.Except), func(one string) bool { return match(one, pkg) }) {
		return false
	}
	row, _ := t.row(pkg)
	return slices.Contains(t.Never, ban) || slices.ContainsFunc(row.Never, func(b Ban) bool { return b.Package == ban.Package })
}

// chain returns the shortest chain of imports from a package to a banned one,
// or nil. The breadth-first search does not continue through packages to which
// the ban applies as well: they are reported themselves, so one violation gives
// one finding.
func (t Table) chain(g *graph, pkg string, ban Ban) []string {
	if !t.forbids(pkg, ban) {
		return nil
	}
	from := map[string]string{pkg: ""}
	for queue := []string{pkg}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if match(ban.Package, at) {
			return trail(from, at)
		}
		// The start is exempt, or every search would end there.
		if at != pkg && isOurs(at) && t.forbids(at, ban) {
			continue
		}
		for _, next := range g.imports[at] {
			if _, seen := from[next]; !seen {
				from[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// trail returns the path of a search from its start to end. The map from has
// the predecessor of each visited node.
func trail(from map[string]string, end string) []string {
	steps := []string{end}
	for at := from[end]; at != ""; at = from[at] {
		steps = append(steps, at)
	}
	slices.Reverse(steps)
	return steps
}

// cycles reports folders that import each other, directly or through others. A
// folder is the first level below internal. Go rejects cycles of packages only;
// of two folders in a cycle, neither is the lower layer.
func cycles(g *graph) []finding.Finding {
	edges := map[string]map[string]string{} // folder -> folder -> one import of it
	for _, pkg := range g.ours {
		for _, imported := range g.imports[pkg] {
			from, to := folder(pkg), folder(imported)
			if !isOurs(imported) || from == to {
				continue
			}
			if edges[from] == nil {
				edges[from] = map[string]string{}
			}
			edges[from][to] = cmp.Or(edges[from][to], pkg+" imports "+imported)
		}
	}
	var findings []finding.Finding
	reported := map[string]bool{}
	for _, start := range slices.Sorted(maps.Keys(edges)) {
		loop := shortestLoop(edges, start)
		// The same cycle is found from each of its folders.
		members := strings.Join(slices.Sorted(slices.Values(loop)), " ")
		if loop == nil || reported[members] {
			continue
		}
		reported[members] = true
		var proof []string
		for i, f := range loop {
			proof = append(proof, edges[f][loop[(i+1)%len(loop)]])
		}
		findings = append(findings, violation(start, "is in a cycle of folders: %s -> %s (%s); one of them must be below the other",
			strings.Join(loop, " -> "), start, strings.Join(proof, "; ")))
	}
	return findings
}

// shortestLoop returns the shortest cycle through start, or nil. Folders are
// visited in sorted order, so that the result is stable.
func shortestLoop(edges map[string]map[string]string, start string) []string {
	from := map[string]string{start: ""}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, next := range slices.Sorted(maps.Keys(edges[queue[0]])) {
			if next == start {
				return trail(from, queue[0])
			}
			if _, seen := from[next]; !seen {
				from[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// folder returns ./internal/NAME for an internal package and ./NAME for others.
func folder(pkg string) string {
	parts := strings.SplitN(pkg, "/", 4)
	keep := 2
	if len(parts) > 2 && parts[1] == "internal" {
		keep = 3
	}
	return strings.Join(parts[:min(keep, len(parts))], "/")
}

// isOurs reports whether a package belongs to the checked module.
func isOurs(pkg string) bool { return pkg == "." || strings.HasPrefix(pkg, "./") }

// match reports whether a pattern covers a package. The pattern ... matches all
// foreign code, and ./... all packages of the module.
func match(pattern, pkg string) bool {
	if pattern == "..." {
		return !isOurs(pkg)
	}
	base, below := strings.CutSuffix(pattern, "/...")
	return pkg == base || below && strings.HasPrefix(pkg, base+"/")
}

// matchAny reports whether one of the patterns covers a package.
func matchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}
