/* Made by scripts/make_tokenizer_golden.py with tokenizers 0.23.3: trained here, encoded there. */
enum { golden_vocabulary = 340 };

static const char golden_text[] =
    "The lighthouse keeper counted the ships that passed in the night, and wrote\012"
    "their number in a book. On the first night there were three ships; on the second\012"
    "there were thirteen; on the third there was none, and he wrote that there was none.\012"
    "\"It's a quiet sea,\" he said, \"and I'm a quiet man, but we'll see.\" He'd seen quieter.\012"
    "The ships that passed carried salt, tin, and letters. The letters carried news of\012"
    "other ships, and of other seas, and of the keepers of other lighthouses, who counted\012"
    "the ships that passed in the night: 3, 13, 0, 33, 130.\012";

typedef struct golden_sentence {
  const char *text;
  size_t size, count;
  uint32_t ids[128];
} golden_sentence;

static const golden_sentence golden_sentences[] = {
    {"The ships passed.",
     17, 4,
     {290, 278, 300, 46}},
    {"There were 1330 ships that night, and he'd counted them all.",
     60, 23,
     {84, 104, 269, 326, 336, 51, 48, 278, 285, 302, 44, 277, 307, 39, 100, 332, 338, 266,
      109, 260, 108, 108, 46}},
    {"We'll see what they've written; it's not what I'm after, isn't it\077 DON'T!",
     73, 58,
     {87, 101, 39, 108, 108, 322, 262, 104, 281, 266, 121, 39, 118, 101, 262, 114, 105, 116,
      116, 101, 110, 59, 32, 105, 116, 39, 115, 263, 312, 262, 104, 281, 32, 73, 39, 109,
      260, 102, 116, 258, 44, 32, 105, 115, 110, 39, 116, 32, 105, 116, 63, 32, 68, 79,
      78, 39, 84, 33}},
    {"   three blanks, a tab\011and  two\012\012\012new lines \015\012 and one at the end ",
     66, 47,
     {32, 32, 257, 114, 268, 305, 108, 97, 110, 107, 115, 44, 260, 32, 116, 97, 98, 9,
      97, 265, 32, 32, 116, 119, 111, 10, 10, 10, 310, 119, 280, 282, 101, 115, 32, 13,
      10, 277, 261, 310, 260, 116, 266, 32, 101, 265, 32}},
    {"Die H\303\274tte des W\303\244rters steht \303\274ber dem Meer \342\200\224 caf\303\251, na"
     "\303\257ve, e\314\201",
     67, 59,
     {68, 105, 101, 32, 72, 195, 188, 116, 116, 101, 32, 100, 101, 115, 32, 87, 195, 164,
      114, 317, 259, 116, 101, 104, 116, 32, 195, 188, 98, 258, 32, 100, 101, 109, 32, 77,
      101, 258, 32, 226, 128, 148, 279, 97, 102, 195, 169, 44, 263, 97, 195, 175, 118, 101,
      44, 32, 101, 204, 129}},
    {"\347\201\257\345\217\260\343\201\256\347\225\252\344\272\272\343\201\257\350\210\271\343\202"
     "\222\346\225\260\343\201\210\343\201\237\343\200\202 \353\223\261\353\214\200 \320\274\320\260"
     "\321\217\320\272",
     52, 52,
     {231, 129, 175, 229, 143, 176, 227, 129, 174, 231, 149, 170, 228, 186, 186, 227, 129, 175,
      232, 136, 185, 227, 130, 146, 230, 149, 176, 227, 129, 136, 227, 129, 159, 227, 128, 130,
      32, 235, 147, 177, 235, 140, 128, 32, 208, 188, 208, 176, 209, 143, 208, 186}},
    {"\360\237\232\242\360\237\232\242 \360\237\221\251\342\200\215\360\237\232\200 \302\275 \342"
     "\205\247 \331\243",
     30, 30,
     {240, 159, 154, 162, 240, 159, 154, 162, 32, 240, 159, 145, 169, 226, 128, 141, 240, 159,
      154, 128, 32, 194, 189, 32, 226, 133, 167, 32, 217, 163}},
    {"no\302\240break\302\240\302\240x\302\205y\343\200\200\343\200\200z\342\200\203\341\240\216q",
     31, 31,
     {110, 111, 194, 160, 98, 114, 101, 97, 107, 194, 160, 194, 160, 120, 194, 133, 121, 227,
      128, 128, 227, 128, 128, 122, 226, 128, 131, 225, 160, 142, 113}},
    {"nonenonenonenonenonenonenonenonenonenonenonenonenonenonenonenonen",
     65, 33,
     {110, 313, 110, 313, 110, 313, 110, 313, 110, 313, 110, 313, 110, 313, 110, 313, 110, 313,
      110, 313, 110, 313, 110, 313, 110, 313, 110, 313, 110, 313, 110, 313, 110}},
    {"thethethethethethethethethethethethethethethethethethethethethethethethethethethetheth",
     86, 29,
     {318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 318,
      318, 318, 318, 318, 318, 318, 318, 318, 318, 318, 256}},
    {"snake_case __init__ a=b;{c:[1,2]}//--",
     37, 34,
     {115, 110, 97, 107, 101, 95, 99, 267, 101, 32, 95, 95, 282, 105, 116, 95, 95, 260,
      61, 98, 59, 123, 99, 58, 91, 49, 44, 50, 93, 125, 47, 47, 45, 45}},
    {"",
     0, 0,
     {0}},
};
