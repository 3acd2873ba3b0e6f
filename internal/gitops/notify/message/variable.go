package message

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// variables returns what expressions and templates can use, with the names of Argo CD.
func (r *Request) variables() (map[string]any, error) {
	object, err := decode(r.Object)
	if err != nil {
		return nil, fmt.Errorf("decode the Application: %w", err)
	}
	project, err := decode(r.Project)
	if err != nil {
		return nil, fmt.Errorf("decode the AppProject: %w", err)
	}
	secrets := r.Secrets
	if secrets == nil {
		secrets = map[string][]byte{}
	}
	shared := map[string]string{}
	maps.Copy(shared, r.Context)
	// A field of edge has no value while the edges are not known: a condition with it is
	// neither true nor false then.
	var edge any
	if r.Edge != nil {
		edge = map[string]any{"routes": r.Edge.Routes, "problems": r.Edge.Problems}
	}
	return map[string]any{
		"edge": edge, "app": object, "appProject": project, "context": shared, "secrets": secrets,
		"serviceType": r.Service, "recipient": r.Recipient,
		"time": timeVariables(), "strings": stringVariables(), "repo": r.repositoryVariables(object),
	}, nil
}

// timeVariables are the functions, durations and layouts of package time.
func timeVariables() map[string]any {
	return map[string]any{
		"Parse": func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }, "Now": time.Now,
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
		"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
		"Layout": time.Layout, "ANSIC": time.ANSIC, "UnixDate": time.UnixDate, "RubyDate": time.RubyDate,
		"RFC822": time.RFC822, "RFC822Z": time.RFC822Z, "RFC850": time.RFC850, "RFC1123": time.RFC1123, "RFC1123Z": time.RFC1123Z,
		"RFC3339": time.RFC3339, "RFC3339Nano": time.RFC3339Nano, "Kitchen": time.Kitchen,
		"Stamp": time.Stamp, "StampMilli": time.StampMilli, "StampMicro": time.StampMicro, "StampNano": time.StampNano,
	}
}

// stringVariables are functions about texts.
func stringVariables() map[string]any {
	return map[string]any{
		"ReplaceAll": strings.ReplaceAll, "ToUpper": strings.ToUpper, "ToLower": strings.ToLower,
	}
}

// repositoryVariables are functions about repositories and commits.
func (r *Request) repositoryVariables(object map[string]any) map[string]any {
	return map[string]any{
		"RepoURLToHTTPS": toHTTPS, "FullNameByRepoURL": fullName, "QueryEscape": url.QueryEscape,
		"GetCommitMetadata": func(revision string) (Commit, error) {
			if found, ok := r.Commits[revision]; ok {
				return found, nil
			}
			return Commit{}, fmt.Errorf("the commit %q is not known: GetCommitMetadata has the commits of the last comparison and the last sync", revision)
		},
		// Argo CD renders the Application again for it. Only the type is at hand here.
		"GetAppDetails": func() map[string]any {
			status, _ := object["status"].(map[string]any)
			return map[string]any{"Type": status["sourceType"]}
		},
	}
}

// scpLike is an address such as git@host:path.
var scpLike = regexp.MustCompile(`^(?:[\w.+-]+@)?([\w.-]+):([^/].*)$`)

// repository splits an address of a repository into host and path.
func repository(address string) (host, path string, err error) {
	if found := scpLike.FindStringSubmatch(address); found != nil && !strings.Contains(address, "://") {
		return found[1], "/" + found[2], nil
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return "", "", fmt.Errorf("the address of the repository: %w", err)
	}
	return parsed.Host, parsed.Path, nil
}

// toHTTPS returns the address of a repository for browsers.
func toHTTPS(address string) (string, error) {
	host, path, err := repository(address)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "https", Host: host, Path: path}).String(), nil
}

// fullName returns owner and name of a repository.
func fullName(address string) (string, error) {
	_, path, err := repository(address)
	if err != nil {
		return "", err
	}
	parts := strings.FieldsFunc(strings.TrimSuffix(path, ".git"), func(r rune) bool { return r == '/' })
	return strings.Join(parts[:min(len(parts), 2)], "/"), nil
}
