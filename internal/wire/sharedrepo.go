package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// sharedRepositoryMax bounds the URL of a Shared Configuration Repository.
const sharedRepositoryMax = 2048

// SharedRepository is the location of an account's Shared Configuration
// Repository (requirement R57).
type SharedRepository struct {
	// RepoURL is the URL for Git: https, http, ssh, or user@host:path.
	RepoURL string
	// Path is the folder in the repository, without leading and trailing
	// slashes; empty means the root.
	Path string
	// Branch is empty for the repository's default branch.
	Branch string
}

// ParseSharedRepository parses <repo>.git[/<path>][?ref=<branch>]. Without .git
// everything before the question mark is the repository. Credentials are
// rejected, and errors never contain the text, because it could include them.
func ParseSharedRepository(text string) (SharedRepository, error) {
	if err := plainSharedText(text); err != nil {
		return SharedRepository{}, err
	}
	location, query, hasQuery := strings.Cut(text, "?")
	branch, err := sharedBranch(query, hasQuery)
	if err != nil {
		return SharedRepository{}, err
	}
	repository, path := splitRepository(location)
	if err := checkRepositoryURL(repository); err != nil {
		return SharedRepository{}, err
	}
	path, err = sharedPath(path)
	if err != nil {
		return SharedRepository{}, err
	}
	return SharedRepository{RepoURL: repository, Path: path, Branch: branch}, nil
}

// String returns the form that ParseSharedRepository parses.
func (s SharedRepository) String() string {
	text := s.RepoURL
	if s.Path != "" {
		text += "/" + s.Path
	}
	if s.Branch != "" {
		text += "?ref=" + (&url.URL{Path: s.Branch}).EscapedPath()
	}
	return text
}

// plainSharedText checks length and characters before anything is parsed. # and
// backslashes are rejected because URL parsers disagree on them.
func plainSharedText(text string) error {
	switch {
	case text == "":
		return errors.New("the Shared Configuration Repository has no URL: write <repository>.git, such as https://git.example.com/team/config.git")
	case len(text) > sharedRepositoryMax:
		return fmt.Errorf("the URL of the Shared Configuration Repository has %d characters; at most %d are possible", len(text), sharedRepositoryMax)
	}
	for _, r := range text {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar || r == '\\' || r == '#' {
			return errors.New("the URL of the Shared Configuration Repository has a blank, a backslash, a # or a character that cannot be seen: take it out")
		}
	}
	return nil
}

// sharedBranch parses the part after the question mark.
func sharedBranch(query string, given bool) (string, error) {
	if !given {
		return "", nil
	}
	value, found := strings.CutPrefix(query, "ref=")
	if !found || strings.ContainsAny(value, "&?") {
		return "", errors.New("after the ? of the Shared Configuration Repository only ref=<branch> is possible")
	}
	branch, err := url.PathUnescape(value)
	if err != nil {
		return "", errors.New("the branch of the Shared Configuration Repository has a broken % escape")
	}
	if !branchName(branch) {
		return "", errors.New("the branch of the Shared Configuration Repository is not a name that a Git branch can have")
	}
	return branch, nil
}

// branchName implements the rules of git check-ref-format.
func branchName(name string) bool {
	if name == "" || name == "@" || len(name) > 255 || name[0] == '-' || strings.HasSuffix(name, ".") {
		return false
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for _, r := range name {
		if r <= ' ' || r == 0x7f || r == unicode.ReplacementChar || strings.ContainsRune(`~^:?*[\`, r) {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// splitRepository splits after the first path element that ends in .git.
func splitRepository(location string) (repository, path string) {
	if at := strings.Index(location, ".git/"); at >= 0 {
		return location[:at+len(".git")], location[at+len(".git/"):]
	}
	return strings.TrimSuffix(location, "/"), ""
}

// checkRepositoryURL validates the URL of a repository. A host or user that
// starts with a dash is rejected: ssh would parse it as an option
// (CVE-2017-1000117).
func checkRepositoryURL(text string) error {
	const how = "write it as https://<host>/<repository>.git, ssh://git@<host>/<repository>.git or git@<host>:<repository>.git"
	if !strings.Contains(text, "://") {
		host, path, found := strings.Cut(text, ":")
		user, host, named := strings.Cut(host, "@")
		if !found || !named || user == "" || host == "" || strings.HasPrefix(host, "-") || strings.HasPrefix(user, "-") ||
			strings.ContainsAny(user+host, "/%@") || repositoryPath(path) != nil {
			return errors.New("the Shared Configuration Repository is not the URL of a Git repository: " + how)
		}
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || u.Opaque != "" {
		return errors.New("the Shared Configuration Repository is not the URL of a Git repository: " + how)
	}
	_, password := u.User.Password()
	switch {
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh":
		return errors.New("the Shared Configuration Repository has to be reached with https, http or ssh: " + how)
	case password || (u.User != nil && u.Scheme != "ssh"):
		return errors.New("the URL of the Shared Configuration Repository has credentials in it: take them out, the runtime has its own")
	case strings.HasPrefix(u.User.Username(), "-"):
		return errors.New("the Shared Configuration Repository is not the URL of a Git repository: " + how)
	}
	return repositoryPath(strings.TrimPrefix(u.Path, "/"))
}

// repositoryPath validates the path of a repository on its server.
func repositoryPath(path string) error {
	if strings.Trim(path, "/") == "" || strings.HasPrefix(path, "-") || path == ".git" {
		return errors.New("the URL of the Shared Configuration Repository names a server but no repository")
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." || part == "." {
			return errors.New("the URL of the Shared Configuration Repository has . or .. in it: write the path without")
		}
	}
	return nil
}

// sharedPath validates the folder and removes a trailing slash. Segments that
// leave the folder or enter .git are rejected.
func sharedPath(path string) (string, error) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return "", nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") || strings.ContainsAny(part, "%:") {
			return "", errors.New("the folder after .git in the Shared Configuration Repository has an empty part, ., .., .git, a % or a colon: write a plain path such as teams/config")
		}
	}
	return path, nil
}
