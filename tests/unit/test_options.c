/* Command lines against tables of fields that no command has together: prefixes, switches that start on, texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config_file.h" /* before cmocka, whose macro is called fail too */
#include "cli/options.h"

#include <cmocka.h>

#include "unit/scratch.h"

typedef struct settings {
  int64_t layers;
  double rate;
  bool qk_norm;
  int activation;
  char name[FIELD_TEXT_SIZE];
} settings;

static const char *const activations[] = {"gelu", "gelu-tanh", "relu-squared-with-a-long-name", NULL};
static const field settings_fields[] = {
    {.name = "layers", .kind = FIELD_INTEGER, .offset = offsetof(settings, layers), .minimum = 1, .maximum = 1024,
     .initial = 4, .help = "blocks"},
    {.name = "learning_rate", .kind = FIELD_REAL, .offset = offsetof(settings, rate), .minimum = 0,
     .maximum = 1e300, .initial = 0.006, .help = "peak learning rate"},
    {.name = "qk_norm", .kind = FIELD_BOOLEAN, .offset = offsetof(settings, qk_norm), .maximum = 1, .initial = 1,
     .help = "normalise queries and keys"},
    {.name = "activation", .kind = FIELD_CHOICE, .offset = offsetof(settings, activation), .maximum = 2,
     .choices = activations, .initial = 1, .help = "of the feed-forward layer"},
    {.name = "name", .kind = FIELD_TEXT, .offset = offsetof(settings, name), .initial_text = "small",
     .help = "a name"},
};

static settings plain, prefixed;
static const char *out, *lengths, *config;
static text_values variants, files;
static command_line line;
static const command trainer = {.name = "fit", .summary = "Fits.", .operands = "TEXT..."};
static alibi_error error;

/* Parses the words of one text, which are separated by single spaces. */
static status parse(const char *text)
{
  static char words[1024];
  static char *arguments[64];
  command_line_free(&line);
  out = "out";
  lengths = NULL;
  command_add_group(&line, "Model", (field_table)FIELD_TABLE(settings_fields), &plain, "");
  command_add_group(&line, "ALiBi", (field_table)FIELD_TABLE(settings_fields), &prefixed, "alibi-");
  command_add_text(&line, "out", "DIR", &out, "folder of the report");
  command_add_text(&line, "test_lengths", "LIST", &lengths, "lengths, separated by commas");
  command_add_texts(&line, "extend", "NAME", &variants, false, "may be given again");
  command_add_texts(&line, "text", "FILE...", &files, true, "up to the next option");
  command_add_config(&line, &config);
  snprintf(words, sizeof words, "%s", text);
  int count = 0;
  for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) arguments[count++] = word;
  alibi_error_init(&error);
  return command_line_parse(&line, &trainer, count, arguments, &error);
}

static void refuse(const char *text, const char *sentence)
{
  assert_int_equal(parse(text), ALIBI_INVALID);
  assert_string_equal(error.message, sentence);
}

static void every_kind_in_both_spellings(void **unused)
{
  (void)unused;
  assert_int_equal(
      parse("--layers 8 --learning-rate=1e-3 --activation gelu --name=big a.txt --no-qk-norm b.txt"), ALIBI_OK);
  assert_int_equal(plain.layers, 8);
  assert_true(plain.rate == 1e-3);
  assert_int_equal(plain.activation, 0);
  assert_string_equal(plain.name, "big");
  assert_false(plain.qk_norm);
  assert_int_equal(line.operand_count, 2);
  assert_string_equal(line.operands[0], "a.txt");
  assert_string_equal(line.operands[1], "b.txt");
  assert_int_equal(prefixed.layers, 4); /* the other group keeps its own */
  assert_true(prefixed.qk_norm);
}

static void prefixes_name_their_group(void **unused)
{
  (void)unused;
  assert_int_equal(parse("--alibi-layers 2 --no-alibi-qk-norm"), ALIBI_OK);
  assert_int_equal(prefixed.layers, 2);
  assert_int_equal(plain.layers, 4);
  assert_false(prefixed.qk_norm);
  assert_true(command_line_given(&line, &prefixed, "layers"));
  assert_true(command_line_given(&line, &prefixed, "qk_norm"));
  assert_false(command_line_given(&line, &plain, "layers"));
}

static void texts_have_any_length(void **unused)
{
  (void)unused;
  assert_int_equal(
      parse("--test-lengths 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28"),
      ALIBI_OK);
  assert_int_equal(strlen(lengths), 74);
  assert_string_equal(out, "out");
  assert_true(command_line_given(&line, &lengths, "test_lengths"));
  assert_false(command_line_given(&line, &out, "out"));
  assert_int_equal(parse("--out=--odd"), ALIBI_OK);
  assert_string_equal(out, "--odd");
  refuse("--out=", "--out: expected DIR, found an empty text");
  refuse("--alibi-name=", "--alibi-name: expected a text, found an empty text");
  refuse("--out a --out b", "--out: given more than once");
}

static void options_are_told_as_they_were_typed(void **unused)
{
  (void)unused;
  static const char *const known[] = {"out", "layers", NULL};
  assert_int_equal(parse("--out x --alibi-learning-rate=1e-3 --layers 3"), ALIBI_OK);
  assert_string_equal(command_line_given_other(&line, known), "--alibi-learning-rate");
  assert_int_equal(parse("--no-qk-norm"), ALIBI_OK);
  assert_string_equal(command_line_given_other(&line, known), "--no-qk-norm");
  assert_int_equal(parse("--layers 3"), ALIBI_OK);
  assert_null(command_line_given_other(&line, known));
}

static void two_dashes_end_options(void **unused)
{
  (void)unused;
  assert_int_equal(parse("--layers 2 -- --layers -"), ALIBI_OK);
  assert_int_equal(line.operand_count, 2);
  assert_string_equal(line.operands[0], "--layers");
  assert_string_equal(line.operands[1], "-");
}

static void slips_are_named_and_the_near_name_suggested(void **unused)
{
  (void)unused;
  refuse("--layer 3", "fit: unknown option --layer; did you mean --layers?");
  refuse("--lyaers 3", "fit: unknown option --lyaers; did you mean --layers?");
  refuse("--act gelu", "fit: unknown option --act; did you mean --activation?");
  refuse("--no-qk-nrom", "fit: unknown option --no-qk-nrom; did you mean --no-qk-norm?");
  refuse("--test-length 3", "fit: unknown option --test-length; did you mean --test-lengths?");
  refuse("--qk_norm", "fit: unknown option --qk_norm; did you mean --qk-norm?");
  refuse("--epochs=3", "fit: unknown option --epochs; alibi fit --help lists the options");
  refuse("--learning-rate 1e-400",
         "--learning-rate: expected a number from 0 to 1e+300, found '1e-400', too small to be told from 0");
  refuse("--layers 0x10", "--layers: expected an integer from 1 to 1024, found '0x10'");
  refuse("--layers 0", "--layers: expected an integer from 1 to 1024, found 0");
  refuse("--activation swish",
         "--activation: expected one of gelu, gelu-tanh, relu-squared-with-a-long-name, found 'swish'");
  refuse("--alibi-layers x", "--alibi-layers: expected an integer from 1 to 1024, found 'x'");
}

static void no_word_breaks_the_parser(void **unused)
{
  (void)unused;
  char word[400];
  memset(word, 'x', sizeof word - 1);
  word[0] = word[1] = '-';
  word[sizeof word - 1] = '\0';
  assert_int_equal(parse(word), ALIBI_INVALID); /* longer than any name */
  assert_int_equal(parse("--="), ALIBI_INVALID);
  assert_int_equal(parse("-=x"), ALIBI_INVALID);
  assert_int_equal(parse("---layers 3"), ALIBI_INVALID);
  char *empty[] = {""};
  command_line_free(&line);
  assert_int_equal(command_line_parse(&line, &trainer, 1, empty, &error), ALIBI_OK);
  assert_int_equal(line.operand_count, 1);
}

static void help_shows_defaults_ranges_and_choices(void **unused)
{
  (void)unused;
  assert_int_equal(parse(""), ALIBI_OK);
  char *text = NULL;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  assert_non_null(stream);
  command_help(&trainer, &line, stream);
  fclose(stream);
  static const char *const parts[] = {
      "usage: alibi fit [options] TEXT...\n",
      "  --out DIR                   folder of the report (default out)\n",
      "  --test-lengths LIST         lengths, separated by commas\n",
      "  --layers N                  blocks (1 to 1024, default 4)\n",
      "  --learning-rate X           peak learning rate (at least 0, default 0.006)\n",
      "  --[no-]qk-norm              normalise queries and keys (default on)\n",
      "  --activation NAME           of the feed-forward layer (gelu, gelu-tanh,\n",
      ",\n                              relu-squared-with-a-long-name; default gelu-tanh)\n",
      "\nALiBi:\n  --alibi-layers N ",
  };
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (!strstr(text, parts[i])) fail_msg("--help lacks: %s\nin:\n%s", parts[i], text);
  free(text);
}

/* Parses with a file of settings. */
static status parse_with(const char *json, const char *more)
{
  char text[1024];
  const char *path = scratch_path("run.json");
  scratch_write(path, json, strlen(json));
  snprintf(text, sizeof text, "--config %s %s", path, more);
  return parse(text);
}

static void refuse_file(const char *json, const char *sentence)
{
  char expected[1024];
  assert_int_equal(parse_with(json, ""), ALIBI_BAD_INPUT);
  snprintf(expected, sizeof expected, "%s: %s", scratch_path("run.json"), sentence);
  assert_string_equal(error.message, expected);
}

static void a_file_gives_what_is_not_typed(void **unused)
{
  (void)unused;
  static const char file[] = "{\"layers\": 7, \"learning-rate\": 1e-3, \"qk_norm\": false,"
                             " \"activation\": \"gelu\","
                             " \"alibi_layers\": 2, \"test_lengths\": [64, \"128\", 0.1], \"out\": \"there\","
                             " \"extend\": [\"ntk\", \"none\"], \"text\": \"one.txt\","
                             " \"texts\": [\"a b.txt\", \"c.txt\"]}";
  assert_int_equal(parse_with(file, "--layers 8 --out here"), ALIBI_OK);
  assert_int_equal(plain.layers, 8);
  assert_string_equal(out, "here");
  assert_true(plain.rate == 1e-3);
  assert_false(plain.qk_norm);
  assert_int_equal(plain.activation, 0);
  assert_int_equal(prefixed.layers, 2);
  assert_string_equal(lengths, "64,128,0.1");
  assert_int_equal(variants.count, 2);
  assert_string_equal(variants.items[1], "none");
  assert_int_equal(files.count, 1);
  assert_int_equal(line.operand_count, 2);
  assert_string_equal(line.operands[0], "a b.txt");
  assert_true(command_line_given(&line, &plain, "qk_norm"));
  assert_false(command_line_given(&line, &prefixed, "qk_norm"));
  assert_int_equal(parse_with(file, "mine.txt"), ALIBI_OK);
  assert_int_equal(line.operand_count, 1);
  assert_string_equal(line.operands[0], "mine.txt");
}

static void slips_in_a_file_are_named(void **unused)
{
  (void)unused;
  refuse_file("{\"lyaers\": 3}", "unknown key 'lyaers'; did you mean 'layers'?");
  refuse_file("{\"epochs\": 3}", "unknown key 'epochs'; keys are the names of options with _ for -");
  refuse_file("{\"no_qk_norm\": true}", "unknown key 'no_qk_norm'; did you mean 'qk_norm' with the value false?");
  refuse_file("{\"config\": \"x\"}", "config: expected none, since a file of settings names no other");
  refuse_file("{\"layers\": 0}", "layers: expected an integer from 1 to 1024, found 0");
  refuse_file("{\"layers\": 2.5}", "layers: expected an integer from 1 to 1024, found 2.5");
  refuse_file("{\"layers\": \"3\"}", "layers: expected a number, found a text");
  refuse_file("{\"qk_norm\": 1}", "qk_norm: expected true or false, found a number");
  refuse_file("{\"activation\": \"swish\"}",
              "activation: expected one of gelu, gelu-tanh, relu-squared-with-a-long-name, found 'swish'");
  refuse_file("{\"out\": \"\"}", "out: expected DIR, a text or a list, found an empty text");
  refuse_file("{\"extend\": [3]}", "extend: expected NAME, a text or a list, found a number");
  refuse_file("{\"test_lengths\": {}}", "test_lengths: expected LIST, a text or a list, found an object");
  refuse_file("{\"learning_rate\": 1, \"learning-rate\": 2}", "learning-rate: given more than once");
  refuse_file("{\"texts\": \"a\"}", "texts: expected a list of files");
  refuse_file("{\"texts\": [1]}", "texts: expected a list of files");
  refuse_file("[]", "expected an object with the names of options as its keys, found an empty list");
  assert_int_equal(parse_with("{\"layers\": 1, \"layers\": 2}", ""), ALIBI_BAD_INPUT);
  scratch_says(error.message, "layers");
  assert_int_equal(parse("--config /no/such/file"), ALIBI_BAD_INPUT);
}

static bool not_out(const void *values, const char *name)
{
  return values != &prefixed && strcmp(name, "out") != 0;
}

/* What is written for a command line reads back as that command line. */
static void a_written_file_repeats_the_line(void **unused)
{
  (void)unused;
  assert_int_equal(
      parse("--learning-rate 0.1 --no-qk-norm --test-lengths 1,2 --alibi-layers 9 --extend a --extend b,c text"),
      ALIBI_OK);
  json_node *node = config_file_node(&line, not_out);
  assert_int_equal(node_write_file(node, scratch_path("run.json"), &error), ALIBI_OK);
  node_free(node);
  char text[600];
  snprintf(text, sizeof text, "--config %s", scratch_path("run.json"));
  assert_int_equal(parse(text), ALIBI_OK);
  assert_true(plain.rate == 0.1);
  assert_false(plain.qk_norm);
  assert_string_equal(plain.name, "small");
  assert_string_equal(lengths, "1,2");
  assert_int_equal(variants.count, 2);
  assert_string_equal(variants.items[1], "b,c");
  assert_int_equal(prefixed.layers, 4);
  assert_string_equal(out, "out");
  assert_string_equal(line.operands[0], "text");
}

static void exit_codes_are_the_documented_ones(void **unused)
{
  (void)unused;
  static const struct {
    status s;
    int code;
  } rows[] = {{ALIBI_OK, 0}, {ALIBI_FAILED, 1}, {ALIBI_INVALID, 2}, {ALIBI_BAD_INPUT, 3}, {ALIBI_CANCELLED, 130}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_int_equal(command_exit_code(rows[i].s), rows[i].code);
}

static void an_option_may_be_given_again(void **unused)
{
  (void)unused;
  assert_int_equal(
      parse("a --extend ntk b --extend=none --text 1 2 --layers 3 c --text 4 - --text=5 d -- e"), ALIBI_OK);
  assert_int_equal(variants.count, 2);
  assert_string_equal(variants.items[0], "ntk");
  assert_string_equal(variants.items[1], "none");
  static const char *const texts[] = {"1", "2", "4", "-", "5"}, *const operands[] = {"a", "b", "c", "d", "e"};
  assert_int_equal(files.count, 5);
  assert_int_equal(line.operand_count, 5);
  for (int i = 0; i < 5; i++) {
    assert_string_equal(files.items[i], texts[i]);
    assert_string_equal(line.operands[i], operands[i]);
  }
  assert_true(command_line_given(&line, &files, "text"));
  refuse("--text --layers 3", "--text: expected a value after it, found the option --layers (a value that begins "
                              "with -- is written --text=VALUE)");
  assert_int_equal(parse(""), ALIBI_OK);
  assert_int_equal(files.count, 0);
}

static int make_folder(void **unused)
{
  (void)unused;
  scratch_make();
  return 0;
}

static int free_line(void **unused)
{
  (void)unused;
  scratch_remove();
  command_line_free(&line);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_in_both_spellings),
      cmocka_unit_test(prefixes_name_their_group),
      cmocka_unit_test(texts_have_any_length),
      cmocka_unit_test(options_are_told_as_they_were_typed),
      cmocka_unit_test(two_dashes_end_options),
      cmocka_unit_test(slips_are_named_and_the_near_name_suggested),
      cmocka_unit_test(no_word_breaks_the_parser),
      cmocka_unit_test(help_shows_defaults_ranges_and_choices),
      cmocka_unit_test(a_file_gives_what_is_not_typed),
      cmocka_unit_test(slips_in_a_file_are_named),
      cmocka_unit_test(a_written_file_repeats_the_line),
      cmocka_unit_test(an_option_may_be_given_again),
      cmocka_unit_test(exit_codes_are_the_documented_ones),
  };
  return cmocka_run_group_tests(tests, make_folder, free_line);
}
