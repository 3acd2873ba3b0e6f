// Package imageupdate updates the images of Applications in Git: it reads the tags of
// registries, chooses one by a strategy, and commits it to the branch that the
// Application syncs from, or to another one.
//
//	settings     what is updated and how, from annotations of Argo CD's Image Updater
//	updater      the same from its kind ImageUpdater
//	plan         who updates which image
//	find         the tag of each image, from the registry
//	target       the file of the repository that has the images
//	message      branches and messages from templates
//	controller   which Application is due
//	update       one run of an Application
//	proposal     the pull request of a run
//
// It writes to Git alone and never to the Application. Nothing is kept between runs:
// the files at the head of the branch decide what changes, and a push names the commit
// that it is based on. So a run that is killed and starts again makes each commit once.
// A tag is written when it is found twice in a row, so that tags that are pushed in a
// burst become one commit.
//
// It refuses settings that it does not know, and then updates nothing of the
// Application; registries and repositories that the project does not allow; and the
// write-back method argocd.
//
// See decision 0072 in docs/decisions: Images are updated in Git alone.
package imageupdate
