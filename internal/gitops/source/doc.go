// Package source finds what an Application's source names: the revision, and
// its files as a tree.Store.
//
// A Git repository is kept as a bare one below a folder: the wanted commits
// only, without their history, and of each new one only what is new. Files are
// read from Git's objects; nothing is checked out and no program is run. Helm
// repositories and OCI registries give charts, which are kept by their digests.
//
// It promises that
//   - many calls for one repository are one request, and a commit that is there
//     already is none;
//   - a failure takes nothing away: what was fetched stays readable, whatever
//     happens to the server, to the branch or to the folder;
//   - a Store stays valid as long as somebody holds it;
//   - memory does not follow the size of repositories: packs stream to the disk,
//     large files are never in memory, refs and indexes have limits;
//   - no error and no log has a password in it, nor the user of an address.
//
// It refuses revisions that no branch, tag, commit or range can have, hosts of
// SSH that are not known, repositories and charts beyond the limits. Every
// refusal is an [Error] that says what to do.
package source
