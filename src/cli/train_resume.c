/* A training that goes on: which checkpoint, and do the settings that were typed agree with it? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/system.h"
#include "cli/config_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/train_command.h"

/* May differ when a training goes on: they do not change what comes of it. */
static const char *const free_names[] = {
    TRAIN_NO_SETTINGS, "checkpoint_every",   "checkpoint_minutes", "keep_checkpoints", "sample_every",
    "sample_tokens",   "sample_temperature", "sample_prompt",      "events",           NULL};

static void on_damaged(void *user, const char *sentence)
{
  going_on *g = user;
  g->damaged++;
  if (ranks_lead()) progress_note("alibi: warning: %s; the checkpoint is passed over", sentence);
}

static status find_checkpoint(const char *out, going_on *g, alibi_error *error)
{
  char *folder = run_checkpoints(out);
  if (!folder) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  status result = checkpoint_newest(folder, on_damaged, g, &g->path, &g->about, error);
  if (result == ALIBI_OK && !g->path && g->damaged)
    result = fail(error, ALIBI_BAD_INPUT,
                  "%s: expected a checkpoint that is whole, found none (--overwrite begins anew)", folder);
  free(folder);
  return result;
}

/* The settings of train.json, where that is of a training that came to its end. */
static const json_node *finished_settings(const char *out, json_node **root)
{
  char *path = path_join(out, "train.json");
  *root = NULL;
  if (!path || !path_exists(path) || node_read_file(path, root, NULL) != ALIBI_OK) *root = NULL;
  free(path);
  bool tested =
      node_kind_of(node_get(*root, "test")) == NODE_OBJECT || node_integer(node_get(*root, "valid_tokens"), 0) < 2;
  if (!node_boolean(node_get(*root, "finished"), false) || !tested) return NULL;
  return node_get(*root, "settings");
}

status train_go_on(command_line *line, const char *out, going_on *g, alibi_error *error)
{
  json_node *root = NULL;
  status result;
  if (!out) return fail(error, ALIBI_INVALID, "--resume: expected --out DIR beside it");
  TRY(find_checkpoint(out, g, error));
  if (g->path) {
    const json_node *settings = node_get(g->about.run, "settings");
    if (!settings)
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected the settings of `alibi train`, found none", g->path);
    TRY(config_file_agree(line, settings, g->path, free_names, error));
    goto done;
  }
  const json_node *settings = finished_settings(out, &root);
  if (settings) {
    alibi_error why = {0};
    if (config_file_agree(line, settings, out, free_names, &why) != ALIBI_OK)
      RAISE(error, why.status, "%s; that training is finished, and without --resume a new one replaces it",
            why.message);
    g->finished = true;
  }
done:
  node_free(root);
  return result;
}

/* An unfinished training is not lost by a command that forgot --resume. */
status train_check_unfinished(const char *out, alibi_error *error)
{
  char *folder = run_checkpoints(out);
  status result = ALIBI_OK;
  if (!folder) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  if (path_is_directory(folder)) {
    directory_list list = {0};
    result = directory_read(folder, &list, error);
    for (size_t i = 0; i < list.count && result == ALIBI_OK; i++)
      if (strncmp(list.names[i], "step-", 5) == 0 && !strstr(list.names[i], ".old"))
        result = fail(
            error, ALIBI_INVALID,
            "%s: expected no unfinished training, found %s: --resume goes on from there, --overwrite begins anew",
            folder, list.names[i]);
    directory_list_free(&list);
  }
  free(folder);
  return result;
}
