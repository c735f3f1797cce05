/* Losses, logits and gradients of small decoders in float64, made by
 * python3 scripts/make_golden_model.py > tests/golden/model_figures.h   (torch 2.15.0) */
#ifndef GOLDEN_MODEL_FIGURES_H
#define GOLDEN_MODEL_FIGURES_H

#include <stddef.h>

enum { GOLDEN_LENGTH = 80, GOLDEN_LOGITS = 8 };
static const size_t golden_sequences[] = {40, 70};

/* Of the gradient of the summed loss: the product with the numbers of "direction of NAME", and the Euclidean norm. */
typedef struct golden_parameter {
  const char *name;
  size_t rows, columns;
  double along, norm;
} golden_parameter;

typedef struct golden_logit {
  size_t row, token;
  double value;
} golden_logit;

typedef struct golden_case {
  const char *name;
  const char *const (*settings)[2];
  size_t setting_count;
  const char *extension;
  double loss; /* nats, summed over all tokens */
  golden_logit logits[GOLDEN_LOGITS];
  const golden_parameter *parameters;
  size_t parameter_count;
} golden_case;

static const golden_parameter alibi_parameters[] = {
    {"embedding.weight", 37, 48, -45.1674217817319, 329.245673681964},
    {"blocks.0.attention_norm.gain", 48, 1, -25.8790642334575, 81.3625164903635},
    {"blocks.0.attention.qkv.weight", 144, 48, 17.4778411445846, 313.478946474292},
    {"blocks.0.attention.output.weight", 48, 48, 58.661931066267, 125.234013581254},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -18.0438428527431, 23.5888266060574},
    {"blocks.0.feed_forward.input.weight", 60, 48, 6.42687393325769, 98.109088701312},
    {"blocks.0.feed_forward.output.weight", 48, 60, -46.8791895261377, 93.7775725629304},
    {"blocks.1.attention_norm.gain", 48, 1, -1.96201459164849, 28.4155529733139},
    {"blocks.1.attention.qkv.weight", 144, 48, -34.7926945244888, 105.197424300022},
    {"blocks.1.attention.output.weight", 48, 48, 21.3556930065876, 69.5727584071257},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 8.6402285583281, 16.7931365704145},
    {"blocks.1.feed_forward.input.weight", 60, 48, -31.1220586002751, 59.4710037661572},
    {"blocks.1.feed_forward.output.weight", 48, 60, -35.6409490422783, 61.1671890547593},
    {"final_norm.gain", 48, 1, 20.2963902987128, 58.6969489785939},
};
static const char *const alibi_settings[][2] = {
    {"position", "alibi"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter sinusoidal_parameters[] = {
    {"embedding.weight", 37, 48, -60.5445223278964, 266.050868648852},
    {"blocks.0.attention_norm.gain", 48, 1, -0.76604976938161, 68.5395997893551},
    {"blocks.0.attention.qkv.weight", 144, 48, 29.1427675297509, 233.107643238128},
    {"blocks.0.attention.output.weight", 48, 48, -9.84146849821172, 112.641770003333},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -14.6739690239878, 25.2598386073459},
    {"blocks.0.feed_forward.input.weight", 60, 48, 0.177543722713878, 92.5467416449737},
    {"blocks.0.feed_forward.output.weight", 48, 60, 24.8782026796415, 91.6142170124143},
    {"blocks.1.attention_norm.gain", 48, 1, -13.8540595003608, 33.8216959573308},
    {"blocks.1.attention.qkv.weight", 144, 48, 23.0742849224831, 103.923512391706},
    {"blocks.1.attention.output.weight", 48, 48, -1.56292749207991, 79.4182147401127},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 4.97692076048339, 18.2143104112377},
    {"blocks.1.feed_forward.input.weight", 60, 48, -17.8510869204299, 64.1205725086272},
    {"blocks.1.feed_forward.output.weight", 48, 60, -18.1687294229751, 69.1226947254344},
    {"final_norm.gain", 48, 1, 13.5223848336496, 68.7322323409605},
};
static const char *const sinusoidal_settings[][2] = {
    {"position", "sinusoidal"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter learned_parameters[] = {
    {"embedding.weight", 37, 48, 96.6318523848503, 240.314647109334},
    {"position.embedding", 80, 48, -35.79315141541, 217.084449253789},
    {"blocks.0.attention_norm.gain", 48, 1, 5.40404397911532, 94.1062610922635},
    {"blocks.0.attention.qkv.weight", 144, 48, -129.731420447647, 290.982516131247},
    {"blocks.0.attention.output.weight", 48, 48, 5.91864107280096, 118.196880254487},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -2.63270564825542, 22.2800748548867},
    {"blocks.0.feed_forward.input.weight", 60, 48, -43.7900230678685, 85.3770675324431},
    {"blocks.0.feed_forward.output.weight", 48, 60, -11.815491239165, 87.1184312367964},
    {"blocks.1.attention_norm.gain", 48, 1, 2.78902892735587, 29.3106341243028},
    {"blocks.1.attention.qkv.weight", 144, 48, 3.04895467639394, 97.2277075154637},
    {"blocks.1.attention.output.weight", 48, 48, -13.9694016895641, 66.9743719687681},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 1.0227404339366, 15.0663483309307},
    {"blocks.1.feed_forward.input.weight", 60, 48, -5.25425992971426, 56.5253837980471},
    {"blocks.1.feed_forward.output.weight", 48, 60, -30.8025577104984, 65.549100403368},
    {"final_norm.gain", 48, 1, 26.7348782544738, 68.3813830946351},
};
static const char *const learned_settings[][2] = {
    {"position", "learned"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter rope_parameters[] = {
    {"embedding.weight", 37, 48, -15.8029990296167, 284.747065164019},
    {"blocks.0.attention_norm.gain", 48, 1, 37.2211699939177, 82.8462089207639},
    {"blocks.0.attention.qkv.weight", 144, 48, -17.2299203962318, 273.026833721594},
    {"blocks.0.attention.output.weight", 48, 48, -44.7521550278948, 117.54484521355},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -6.41674755927969, 21.0830534249282},
    {"blocks.0.feed_forward.input.weight", 60, 48, -56.4041232243552, 89.6623446365418},
    {"blocks.0.feed_forward.output.weight", 48, 60, -31.747088448557, 88.8243827354805},
    {"blocks.1.attention_norm.gain", 48, 1, -12.6464457247422, 28.6721475549493},
    {"blocks.1.attention.qkv.weight", 144, 48, -0.630997760779016, 98.2393161517335},
    {"blocks.1.attention.output.weight", 48, 48, -10.5348775276861, 73.6463652262054},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 5.50238142295204, 17.4440743164295},
    {"blocks.1.feed_forward.input.weight", 60, 48, 16.8365134672576, 65.040867816879},
    {"blocks.1.feed_forward.output.weight", 48, 60, -22.1954737270331, 61.3777070876171},
    {"final_norm.gain", 48, 1, 8.91798004424851, 60.6646372471109},
};
static const char *const rope_settings[][2] = {
    {"position", "rope"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter t5_parameters[] = {
    {"embedding.weight", 37, 48, -9.16373108134619, 333.025592252463},
    {"position.table", 32, 6, -0.529106053060334, 11.8528900402484},
    {"blocks.0.attention_norm.gain", 48, 1, -2.56249667032721, 90.0502890104112},
    {"blocks.0.attention.qkv.weight", 144, 48, 13.0808740841176, 311.22213467357},
    {"blocks.0.attention.output.weight", 48, 48, -5.29342213283334, 128.360041116593},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -14.5281854224919, 23.1672887155675},
    {"blocks.0.feed_forward.input.weight", 60, 48, -46.1885234624573, 94.5361963373001},
    {"blocks.0.feed_forward.output.weight", 48, 60, -25.6043293874335, 99.3416764490447},
    {"blocks.1.attention_norm.gain", 48, 1, -0.718348973440765, 26.8064157308803},
    {"blocks.1.attention.qkv.weight", 144, 48, 23.885201150795, 108.585610539335},
    {"blocks.1.attention.output.weight", 48, 48, 10.3456898385852, 73.6975723104838},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 4.23920995798325, 18.4181697527219},
    {"blocks.1.feed_forward.input.weight", 60, 48, -18.8123658359352, 66.0918256089595},
    {"blocks.1.feed_forward.output.weight", 48, 60, -34.3360593747893, 65.8842369734806},
    {"final_norm.gain", 48, 1, 26.8201321492705, 64.5688189253038},
};
static const char *const t5_settings[][2] = {
    {"position", "t5"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter none_parameters[] = {
    {"embedding.weight", 37, 48, -0.802458953694234, 323.862775980955},
    {"blocks.0.attention_norm.gain", 48, 1, 10.802891314458, 83.7244368727343},
    {"blocks.0.attention.qkv.weight", 144, 48, 4.59822170510139, 312.502345081184},
    {"blocks.0.attention.output.weight", 48, 48, -1.78060267608749, 130.851576463141},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -10.654031690294, 25.1226714649425},
    {"blocks.0.feed_forward.input.weight", 60, 48, -49.181127119013, 95.9478167674887},
    {"blocks.0.feed_forward.output.weight", 48, 60, -3.06322768956431, 99.8017519440702},
    {"blocks.1.attention_norm.gain", 48, 1, -1.71976823229935, 25.3808337484396},
    {"blocks.1.attention.qkv.weight", 144, 48, 15.1250869472498, 108.588987793712},
    {"blocks.1.attention.output.weight", 48, 48, 10.2164886187276, 72.8131877903466},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 5.41478400676126, 18.1610636581239},
    {"blocks.1.feed_forward.input.weight", 60, 48, -20.6547354297725, 65.5735346369178},
    {"blocks.1.feed_forward.output.weight", 48, 60, -32.143147788699, 65.312969604025},
    {"final_norm.gain", 48, 1, 25.3745968460863, 64.2393812217616},
};
static const char *const none_settings[][2] = {
    {"position", "none"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter alibi_full_parameters[] = {
    {"embedding.weight", 37, 48, 57.8592017458745, 153.209024258797},
    {"blocks.0.attention_norm.gain", 48, 1, -7.70300318877046, 43.8190959052437},
    {"blocks.0.attention_norm.shift", 48, 1, 13.2356007210494, 121.019345393521},
    {"blocks.0.attention.qkv.weight", 144, 48, -20.6246771509087, 194.239226487609},
    {"blocks.0.attention.qkv.bias", 144, 1, 12.8433444302459, 64.5883758708767},
    {"blocks.0.attention.query_norm.gain", 8, 1, 6.03846790823545, 24.1564940641112},
    {"blocks.0.attention.key_norm.gain", 8, 1, 2.18475780078593, 19.5178328529291},
    {"blocks.0.attention.output.weight", 48, 48, 19.4140832221573, 202.38584328331},
    {"blocks.0.attention.output.bias", 48, 1, -14.4711683226885, 35.3300254367614},
    {"blocks.0.feed_forward_norm.gain", 48, 1, 3.6787407774809, 45.837840633015},
    {"blocks.0.feed_forward_norm.shift", 48, 1, 12.8777465063206, 70.667025069013},
    {"blocks.0.feed_forward.input.weight", 60, 48, 18.8419932020565, 167.523668806655},
    {"blocks.0.feed_forward.input.bias", 60, 1, 1.85507951297457, 28.2703082860272},
    {"blocks.0.feed_forward.output.weight", 48, 60, 13.3264864032133, 225.015196700328},
    {"blocks.0.feed_forward.output.bias", 48, 1, -11.5863523754596, 21.9162348122688},
    {"blocks.1.attention_norm.gain", 48, 1, 3.103473263623, 34.2394848717811},
    {"blocks.1.attention_norm.shift", 48, 1, 16.046582096155, 55.8620521930817},
    {"blocks.1.attention.qkv.weight", 144, 48, -7.77084638128452, 157.751692219656},
    {"blocks.1.attention.qkv.bias", 144, 1, 5.00466431762348, 28.358186042724},
    {"blocks.1.attention.query_norm.gain", 8, 1, -0.415635885243264, 4.01868358686817},
    {"blocks.1.attention.key_norm.gain", 8, 1, -0.184651829253419, 4.58103003635718},
    {"blocks.1.attention.output.weight", 48, 48, -35.0799228540588, 212.274230443683},
    {"blocks.1.attention.output.bias", 48, 1, -1.16742583104774, 18.3193303110957},
    {"blocks.1.feed_forward_norm.gain", 48, 1, -5.7880079412218, 37.878905283203},
    {"blocks.1.feed_forward_norm.shift", 48, 1, -16.8375793811287, 47.5093340788588},
    {"blocks.1.feed_forward.input.weight", 60, 48, -96.5178994159916, 141.306060305171},
    {"blocks.1.feed_forward.input.bias", 60, 1, 4.71988397890366, 22.2888966881273},
    {"blocks.1.feed_forward.output.weight", 48, 60, -30.425645672825, 157.166917331325},
    {"blocks.1.feed_forward.output.bias", 48, 1, 7.28919513262881, 14.1368068369381},
    {"final_norm.gain", 48, 1, -2.80010695045129, 98.0557856012966},
    {"final_norm.shift", 48, 1, -30.9094672013033, 108.915479699336},
    {"output.weight", 37, 48, -177.72198196504, 322.662097118369},
};
static const char *const alibi_full_settings[][2] = {
    {"position", "alibi"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "true"}, {"bias", "true"}, {"tied", "false"}, {"qk_norm", "true"},
    {"activation", "gelu-tanh"}, {"alibi_slope_rule", "geometric"}, {"alibi_max_bias", "5"},
};
static const golden_parameter rope_full_parameters[] = {
    {"embedding.weight", 37, 48, -28.1803761808411, 120.348892141486},
    {"blocks.0.attention_norm.gain", 48, 1, 14.4916276366537, 34.5762506523703},
    {"blocks.0.attention_norm.shift", 48, 1, -0.231421814459971, 92.0336995976443},
    {"blocks.0.attention.qkv.weight", 120, 48, 21.4630005361526, 143.487253318673},
    {"blocks.0.attention.qkv.bias", 120, 1, -8.15606729256732, 47.2178636300684},
    {"blocks.0.attention.query_norm.gain", 12, 1, 2.07476069212384, 14.3177666161978},
    {"blocks.0.attention.key_norm.gain", 12, 1, 3.16829279508213, 12.1257755300606},
    {"blocks.0.attention.output.weight", 48, 72, 78.2907586755549, 171.477861332782},
    {"blocks.0.attention.output.bias", 48, 1, -3.6590424267545, 25.9532234390704},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -7.44452828651688, 31.895423515156},
    {"blocks.0.feed_forward_norm.shift", 48, 1, -3.80618305577344, 41.0040063242721},
    {"blocks.0.feed_forward.input.weight", 60, 48, 33.1080615942513, 137.811771425269},
    {"blocks.0.feed_forward.input.bias", 60, 1, -8.22631936578551, 22.2184185648972},
    {"blocks.0.feed_forward.output.weight", 48, 60, 142.317451767655, 199.177445782871},
    {"blocks.0.feed_forward.output.bias", 48, 1, -8.57871051435426, 18.8587527169854},
    {"blocks.1.attention_norm.gain", 48, 1, 24.8174143032644, 62.083277609278},
    {"blocks.1.attention_norm.shift", 48, 1, -11.1467193341977, 76.4337712942429},
    {"blocks.1.attention.qkv.weight", 120, 48, 7.2247313789975, 259.726063970903},
    {"blocks.1.attention.qkv.bias", 120, 1, -11.9598466979916, 41.9692227885794},
    {"blocks.1.attention.query_norm.gain", 12, 1, -0.328427325243397, 6.84201495965657},
    {"blocks.1.attention.key_norm.gain", 12, 1, -0.797898498280776, 6.19066667883835},
    {"blocks.1.attention.output.weight", 48, 72, -24.7095987470277, 256.149114471895},
    {"blocks.1.attention.output.bias", 48, 1, -7.64642316408954, 17.227382429916},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 13.878635376581, 52.1459039008536},
    {"blocks.1.feed_forward_norm.shift", 48, 1, -9.88747530705374, 55.3981799048744},
    {"blocks.1.feed_forward.input.weight", 60, 48, 37.7364075021303, 173.565700995},
    {"blocks.1.feed_forward.input.bias", 60, 1, 9.58545959504285, 25.7069137076821},
    {"blocks.1.feed_forward.output.weight", 48, 60, -18.5864048496277, 142.166731097497},
    {"blocks.1.feed_forward.output.bias", 48, 1, 4.03240561645001, 15.7681102955644},
    {"final_norm.gain", 48, 1, 39.637029151417, 111.929756799886},
    {"final_norm.shift", 48, 1, 8.70552072429517, 112.717291476761},
    {"output.weight", 37, 48, -38.1449977094723, 341.167711683292},
};
static const char *const rope_full_settings[][2] = {
    {"position", "rope"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "2"}, {"head_size", "12"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "true"}, {"bias", "true"}, {"tied", "false"}, {"qk_norm", "true"},
    {"activation", "gelu-tanh"}, {"rope_base", "500"}, {"rope_fraction", "0.5"},
};
static const golden_parameter learned_full_parameters[] = {
    {"embedding.weight", 37, 48, -8.08898105167684, 117.262435609284},
    {"position.embedding", 80, 48, -13.201891016999, 106.89286449122},
    {"blocks.0.attention_norm.gain", 48, 1, 15.0916521013511, 41.3767781701224},
    {"blocks.0.attention_norm.shift", 48, 1, 2.29790429484226, 160.434739665721},
    {"blocks.0.attention.qkv.weight", 144, 48, -8.58606606701411, 206.367586504328},
    {"blocks.0.attention.qkv.bias", 144, 1, 23.1334265390735, 80.3458894392797},
    {"blocks.0.attention.query_norm.gain", 8, 1, 2.05187467123271, 21.4312863859571},
    {"blocks.0.attention.key_norm.gain", 8, 1, -5.59620417183133, 19.4001912150442},
    {"blocks.0.attention.output.weight", 48, 48, 45.8767257278679, 236.763276711102},
    {"blocks.0.attention.output.bias", 48, 1, -18.355159801311, 44.0913946646093},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -16.294465182987, 70.1862317651359},
    {"blocks.0.feed_forward_norm.shift", 48, 1, 9.48526705840036, 76.9036273927752},
    {"blocks.0.feed_forward.input.weight", 60, 48, 35.42747832234, 210.243574210166},
    {"blocks.0.feed_forward.input.bias", 60, 1, 4.39990052123276, 33.1467335535886},
    {"blocks.0.feed_forward.output.weight", 48, 60, 35.9512833465796, 277.118990955175},
    {"blocks.0.feed_forward.output.bias", 48, 1, -11.3718124215637, 25.4015453496288},
    {"blocks.1.attention_norm.gain", 48, 1, -3.95218516007101, 48.8619011907947},
    {"blocks.1.attention_norm.shift", 48, 1, 21.4861396426624, 64.1297663562419},
    {"blocks.1.attention.qkv.weight", 144, 48, -22.1429967696143, 198.864058946541},
    {"blocks.1.attention.qkv.bias", 144, 1, 6.34955993472807, 32.3764768992298},
    {"blocks.1.attention.query_norm.gain", 8, 1, -0.879707844079056, 6.68526857430003},
    {"blocks.1.attention.key_norm.gain", 8, 1, -2.34819378494966, 6.63592710076279},
    {"blocks.1.attention.output.weight", 48, 48, -37.1237641141375, 274.55082132046},
    {"blocks.1.attention.output.bias", 48, 1, -1.57871796385481, 20.7805431509919},
    {"blocks.1.feed_forward_norm.gain", 48, 1, -4.14569554886291, 52.7433550857045},
    {"blocks.1.feed_forward_norm.shift", 48, 1, -19.6851508304258, 60.7196825777335},
    {"blocks.1.feed_forward.input.weight", 60, 48, -91.8850637190578, 185.216984971159},
    {"blocks.1.feed_forward.input.bias", 60, 1, 2.66309375978162, 27.2922123287684},
    {"blocks.1.feed_forward.output.weight", 48, 60, -40.1474688015748, 196.134249569767},
    {"blocks.1.feed_forward.output.bias", 48, 1, 8.89812077848369, 15.5962027542035},
    {"final_norm.gain", 48, 1, 10.322882504219, 122.213786169162},
    {"final_norm.shift", 48, 1, -35.3241077690625, 129.164383708582},
    {"output.weight", 37, 48, -207.062001260556, 401.030834491602},
};
static const char *const learned_full_settings[][2] = {
    {"position", "learned"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "80"},
    {"norm", "layernorm"}, {"norm_bias", "true"}, {"bias", "true"}, {"tied", "false"}, {"qk_norm", "true"},
    {"activation", "gelu-tanh"},
};
static const golden_parameter t5_beyond_parameters[] = {
    {"embedding.weight", 37, 48, -49.630517327453, 322.619853406234},
    {"position.table", 32, 6, 7.16067663919867, 12.2162460700833},
    {"blocks.0.attention_norm.gain", 48, 1, -49.055519830182, 90.3618380886816},
    {"blocks.0.attention.qkv.weight", 120, 48, 41.8181551514709, 302.970322266321},
    {"blocks.0.attention.output.weight", 48, 72, 1.31343184517676, 119.131921663408},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -8.91294158533534, 21.3328067038297},
    {"blocks.0.feed_forward.input.weight", 60, 48, 0.182147124213696, 82.448153074767},
    {"blocks.0.feed_forward.output.weight", 48, 60, 29.7297607216345, 85.2027432966459},
    {"blocks.1.attention_norm.gain", 48, 1, -14.4812866064508, 32.6488904145675},
    {"blocks.1.attention.qkv.weight", 120, 48, -42.0112085087995, 107.874451632488},
    {"blocks.1.attention.output.weight", 48, 72, -13.5334311508718, 66.2888683204845},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 4.1562158779501, 15.5575648091158},
    {"blocks.1.feed_forward.input.weight", 60, 48, -4.6743900369464, 50.0697548626499},
    {"blocks.1.feed_forward.output.weight", 48, 60, 6.17951260190163, 43.5759781742676},
    {"final_norm.gain", 48, 1, 6.24962103759482, 59.107521792208},
};
static const char *const t5_beyond_settings[][2] = {
    {"position", "t5"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "2"}, {"head_size", "12"}, {"feed_forward", "60"}, {"train_length", "20"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter t5_few_buckets_parameters[] = {
    {"embedding.weight", 37, 48, -109.71646107507, 266.12998102853},
    {"position.table", 8, 6, 1.40580721702655, 14.3281381922437},
    {"blocks.0.attention_norm.gain", 48, 1, -3.40591375778874, 49.9674966214423},
    {"blocks.0.attention.qkv.weight", 144, 48, 107.379105739892, 210.648423105244},
    {"blocks.0.attention.query_norm.gain", 8, 1, 10.498943051021, 25.4908885941721},
    {"blocks.0.attention.key_norm.gain", 8, 1, -3.73389787596361, 26.1288287331464},
    {"blocks.0.attention.output.weight", 48, 48, 43.5913628368878, 155.622615159547},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -10.3002604361417, 41.590829394102},
    {"blocks.0.feed_forward.input.weight", 60, 48, -22.5852886351501, 151.293854035585},
    {"blocks.0.feed_forward.output.weight", 48, 60, -36.2030660245042, 176.136102535767},
    {"blocks.1.attention_norm.gain", 48, 1, -8.30074307037043, 46.8524705228302},
    {"blocks.1.attention.qkv.weight", 144, 48, -62.246721550585, 161.803206066891},
    {"blocks.1.attention.query_norm.gain", 8, 1, -3.14217176416515, 9.58749763022969},
    {"blocks.1.attention.key_norm.gain", 8, 1, 2.97254648953463, 13.1324064926734},
    {"blocks.1.attention.output.weight", 48, 48, 28.7322598654346, 154.627893312475},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 9.90400431183017, 39.3070988841236},
    {"blocks.1.feed_forward.input.weight", 60, 48, -34.8164216524826, 116.223719251448},
    {"blocks.1.feed_forward.output.weight", 48, 60, -32.4058101589247, 104.408673222234},
    {"final_norm.gain", 48, 1, 28.5532778388673, 78.047256695867},
};
static const char *const t5_few_buckets_settings[][2] = {
    {"position", "t5"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "30"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "true"},
    {"activation", "gelu"}, {"t5_buckets", "8"},
};
static const golden_parameter alibi_rms_parameters[] = {
    {"embedding.weight", 37, 48, -74.8611029212584, 309.024699158887},
    {"blocks.0.attention_norm.gain", 48, 1, -9.98138805786115, 70.4663232070737},
    {"blocks.0.attention.qkv.weight", 120, 48, -14.4510815114179, 304.812773344131},
    {"blocks.0.attention.output.weight", 48, 72, 35.5806830640565, 127.128258447051},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -9.60786311095304, 23.3748090917576},
    {"blocks.0.feed_forward.input.weight", 60, 48, 13.6318341006427, 80.8939630480617},
    {"blocks.0.feed_forward.output.weight", 48, 60, 1.54218071172561, 111.332563826574},
    {"blocks.1.attention_norm.gain", 48, 1, 18.3825358885836, 36.3641113254853},
    {"blocks.1.attention.qkv.weight", 120, 48, 37.8075852701577, 125.03258832152},
    {"blocks.1.attention.output.weight", 48, 72, -12.9519756557415, 88.0348408406276},
    {"blocks.1.feed_forward_norm.gain", 48, 1, -1.3765975647667, 15.3393688803281},
    {"blocks.1.feed_forward.input.weight", 60, 48, 9.35167446493541, 60.2431662634066},
    {"blocks.1.feed_forward.output.weight", 48, 60, -10.0182543069442, 53.715110292902},
    {"final_norm.gain", 48, 1, 7.07349209197311, 59.8949544628344},
    {"output.weight", 37, 48, -10.767785497794, 113.441631206485},
};
static const char *const alibi_rms_settings[][2] = {
    {"position", "alibi"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "2"}, {"head_size", "12"}, {"feed_forward", "60"}, {"train_length", "80"}, {"norm", "rmsnorm"},
    {"norm_bias", "false"}, {"bias", "false"}, {"tied", "false"}, {"qk_norm", "false"}, {"activation", "gelu"},
};
static const golden_parameter rope_linear_parameters[] = {
    {"embedding.weight", 37, 48, -79.7786232126803, 320.391745957032},
    {"blocks.0.attention_norm.gain", 48, 1, 5.65421476575545, 92.1965395279309},
    {"blocks.0.attention.qkv.weight", 144, 48, -289.427658484113, 323.578198205332},
    {"blocks.0.attention.output.weight", 48, 48, 82.6401075772077, 128.46634432488},
    {"blocks.0.feed_forward_norm.gain", 48, 1, 1.65668048196452, 24.5112262251001},
    {"blocks.0.feed_forward.input.weight", 60, 48, 7.60123002877105, 96.7483574615772},
    {"blocks.0.feed_forward.output.weight", 48, 60, -5.71627250808717, 89.7789585120621},
    {"blocks.1.attention_norm.gain", 48, 1, -1.83596112893333, 31.9037542162759},
    {"blocks.1.attention.qkv.weight", 144, 48, 59.5101038582471, 102.620187502522},
    {"blocks.1.attention.output.weight", 48, 48, -1.31712796432911, 69.0241415086461},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 8.01678047141201, 15.5666595641589},
    {"blocks.1.feed_forward.input.weight", 60, 48, 0.504780105036609, 60.8652468715623},
    {"blocks.1.feed_forward.output.weight", 48, 60, -27.2570084043138, 57.089605949894},
    {"final_norm.gain", 48, 1, 21.9552774640602, 59.9999427816791},
};
static const char *const rope_linear_settings[][2] = {
    {"position", "rope"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "16"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter rope_ntk_parameters[] = {
    {"embedding.weight", 37, 48, 17.3761150608987, 279.717281358558},
    {"blocks.0.attention_norm.gain", 48, 1, 26.1850597521894, 71.8344839261346},
    {"blocks.0.attention.qkv.weight", 144, 48, -22.4580140224761, 259.001594788966},
    {"blocks.0.attention.output.weight", 48, 48, -22.8487614430923, 125.769307346386},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -7.64890242879667, 21.5934346660453},
    {"blocks.0.feed_forward.input.weight", 60, 48, -64.5064006324659, 90.0457215489297},
    {"blocks.0.feed_forward.output.weight", 48, 60, -22.9480405823346, 89.0293063449867},
    {"blocks.1.attention_norm.gain", 48, 1, -7.24236636198514, 29.5398858784487},
    {"blocks.1.attention.qkv.weight", 144, 48, -15.3902207147314, 99.9653989659165},
    {"blocks.1.attention.output.weight", 48, 48, 0.992836588893344, 75.3930857612465},
    {"blocks.1.feed_forward_norm.gain", 48, 1, 7.00591501823581, 16.1299985552962},
    {"blocks.1.feed_forward.input.weight", 60, 48, 10.9543674672082, 65.7024278555475},
    {"blocks.1.feed_forward.output.weight", 48, 60, -14.3709193084418, 63.3060241689992},
    {"final_norm.gain", 48, 1, 6.21768419254188, 62.092163638124},
};
static const char *const rope_ntk_settings[][2] = {
    {"position", "rope"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "8"}, {"feed_forward", "60"}, {"train_length", "16"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"},
};
static const golden_parameter rope_yarn_parameters[] = {
    {"embedding.weight", 37, 48, -70.8132781225773, 363.627535633896},
    {"blocks.0.attention_norm.gain", 48, 1, 12.2917841742106, 88.9023739368482},
    {"blocks.0.attention.qkv.weight", 288, 48, -6.92015592211635, 352.463218743364},
    {"blocks.0.attention.output.weight", 48, 96, 3.74210708354846, 131.577876326084},
    {"blocks.0.feed_forward_norm.gain", 48, 1, -2.71594529379962, 17.704829192012},
    {"blocks.0.feed_forward.input.weight", 60, 48, 12.9654195811589, 74.493108434165},
    {"blocks.0.feed_forward.output.weight", 48, 60, -40.0295399436957, 77.5464949063885},
    {"blocks.1.attention_norm.gain", 48, 1, -4.54523858183074, 30.9029131268572},
    {"blocks.1.attention.qkv.weight", 288, 48, -6.5244480333452, 116.30639787806},
    {"blocks.1.attention.output.weight", 48, 96, -21.7059915200789, 53.1642141353779},
    {"blocks.1.feed_forward_norm.gain", 48, 1, -0.294445970009449, 8.34894993554091},
    {"blocks.1.feed_forward.input.weight", 60, 48, 14.306975141156, 34.0866377641447},
    {"blocks.1.feed_forward.output.weight", 48, 60, -6.59114210368239, 33.4548300737984},
    {"final_norm.gain", 48, 1, 5.57109838091062, 49.6035694104059},
};
static const char *const rope_yarn_settings[][2] = {
    {"position", "rope"}, {"vocabulary", "37"}, {"layers", "2"}, {"width", "48"}, {"heads", "6"},
    {"kv_heads", "6"}, {"head_size", "16"}, {"feed_forward", "60"}, {"train_length", "16"},
    {"norm", "layernorm"}, {"norm_bias", "false"}, {"bias", "false"}, {"tied", "true"}, {"qk_norm", "false"},
    {"activation", "gelu"}, {"rope_base", "100"},
};
static const golden_case golden_cases[] = {
    {"alibi", alibi_settings, sizeof alibi_settings / sizeof alibi_settings[0],
     NULL, 572.807321502846,
     {
    {0, 3, 2.15335366609175}, {1, 10, -1.17705572001653}, {17, 11, -2.44059954745752},
    {39, 17, -2.83106861763628}, {40, 24, 0.661387778952143}, {55, 18, -3.76439375239303},
    {103, 21, 2.99846767811738}, {109, 26, 1.39881326863967},
     },
     alibi_parameters, sizeof alibi_parameters / sizeof alibi_parameters[0]},
    {"sinusoidal", sinusoidal_settings, sizeof sinusoidal_settings / sizeof sinusoidal_settings[0],
     NULL, 644.215461427068,
     {
    {0, 3, 0.876345392601156}, {1, 10, -2.43107828568052}, {17, 11, 0.820892419743093},
    {39, 17, -1.97260987773508}, {40, 24, 3.79334895651821}, {55, 18, -1.75288151170139},
    {103, 21, -0.122315246488212}, {109, 26, -2.46035099978534},
     },
     sinusoidal_parameters, sizeof sinusoidal_parameters / sizeof sinusoidal_parameters[0]},
    {"learned", learned_settings, sizeof learned_settings / sizeof learned_settings[0],
     NULL, 606.485116745401,
     {
    {0, 3, 0.838954342745561}, {1, 10, -1.59642664174664}, {17, 11, 2.73262771102539},
    {39, 17, 1.1926418741371}, {40, 24, 2.15815371191539}, {55, 18, -1.41179763858248},
    {103, 21, -2.55663266321513}, {109, 26, 1.18782788282854},
     },
     learned_parameters, sizeof learned_parameters / sizeof learned_parameters[0]},
    {"rope", rope_settings, sizeof rope_settings / sizeof rope_settings[0],
     NULL, 587.167808597699,
     {
    {0, 3, 2.15335366609175}, {1, 10, -0.85326583994274}, {17, 11, 2.22637944730917},
    {39, 17, -0.140017526483876}, {40, 24, 0.661387778952143}, {55, 18, 0.0576270986339767},
    {103, 21, -0.777255118285438}, {109, 26, 0.209065243692507},
     },
     rope_parameters, sizeof rope_parameters / sizeof rope_parameters[0]},
    {"t5", t5_settings, sizeof t5_settings / sizeof t5_settings[0],
     NULL, 604.047205971755,
     {
    {0, 3, 2.15335366609175}, {1, 10, -1.23139158122266}, {17, 11, -0.797898240131231},
    {39, 17, -3.09477161940229}, {40, 24, 0.661387778952143}, {55, 18, -3.47736769003255},
    {103, 21, 0.281698881794879}, {109, 26, 1.03763808962489},
     },
     t5_parameters, sizeof t5_parameters / sizeof t5_parameters[0]},
    {"none", none_settings, sizeof none_settings / sizeof none_settings[0],
     NULL, 601.077847474725,
     {
    {0, 3, 2.15335366609175}, {1, 10, -1.13456547652232}, {17, 11, -1.01507688143051},
    {39, 17, -2.98486827690641}, {40, 24, 0.661387778952143}, {55, 18, -3.57168778231636},
    {103, 21, -0.137533603630445}, {109, 26, 1.32374741704106},
     },
     none_parameters, sizeof none_parameters / sizeof none_parameters[0]},
    {"alibi_full", alibi_full_settings, sizeof alibi_full_settings / sizeof alibi_full_settings[0],
     NULL, 609.277100604323,
     {
    {0, 3, -0.956700596730345}, {1, 10, -3.48353242118408}, {17, 11, -3.03458979615611},
    {39, 17, 1.77079816359095}, {40, 24, 0.498973619061934}, {55, 18, -1.5788259679427},
    {103, 21, 0.182861250631408}, {109, 26, -6.80843496267106},
     },
     alibi_full_parameters, sizeof alibi_full_parameters / sizeof alibi_full_parameters[0]},
    {"rope_full", rope_full_settings, sizeof rope_full_settings / sizeof rope_full_settings[0],
     NULL, 682.829995974316,
     {
    {0, 3, -0.996120376199699}, {1, 10, -3.21486622445628}, {17, 11, -3.07115562618257},
    {39, 17, 1.16645962693305}, {40, 24, 0.363288901118763}, {55, 18, 5.13929919043997},
    {103, 21, -3.49619149038098}, {109, 26, 1.35510295253452},
     },
     rope_full_parameters, sizeof rope_full_parameters / sizeof rope_full_parameters[0]},
    {"learned_full", learned_full_settings, sizeof learned_full_settings / sizeof learned_full_settings[0],
     NULL, 614.623748625396,
     {
    {0, 3, -2.659520496005}, {1, 10, -3.51589052893967}, {17, 11, -1.43981452102846},
    {39, 17, 2.64390724910281}, {40, 24, 1.07811315400005}, {55, 18, -1.20276877227406},
    {103, 21, 0.330513566701887}, {109, 26, -5.56506279735599},
     },
     learned_full_parameters, sizeof learned_full_parameters / sizeof learned_full_parameters[0]},
    {"t5_beyond", t5_beyond_settings, sizeof t5_beyond_settings / sizeof t5_beyond_settings[0],
     NULL, 594.807255477614,
     {
    {0, 3, 3.21238123992988}, {1, 10, 0.1538418477889}, {17, 11, 0.291520998092679},
    {39, 17, -1.76599724196588}, {40, 24, 3.01654023768655}, {55, 18, 0.301481377956134},
    {103, 21, -0.0265266310764988}, {109, 26, 0.493947765190367},
     },
     t5_beyond_parameters, sizeof t5_beyond_parameters / sizeof t5_beyond_parameters[0]},
    {"t5_few_buckets", t5_few_buckets_settings, sizeof t5_few_buckets_settings / sizeof t5_few_buckets_settings[0],
     NULL, 625.2768081354,
     {
    {0, 3, 2.15335366609175}, {1, 10, -0.722478169692496}, {17, 11, 0.60494026033361},
    {39, 17, -1.91158062447719}, {40, 24, 0.661387778952143}, {55, 18, -0.809950998053304},
    {103, 21, 1.20162001431171}, {109, 26, 1.2839631696849},
     },
     t5_few_buckets_parameters, sizeof t5_few_buckets_parameters / sizeof t5_few_buckets_parameters[0]},
    {"alibi_rms", alibi_rms_settings, sizeof alibi_rms_settings / sizeof alibi_rms_settings[0],
     NULL, 594.091375583246,
     {
    {0, 3, 0.647982973039773}, {1, 10, -1.93937704477456}, {17, 11, -4.92334934871688},
    {39, 17, -0.0377850629288532}, {40, 24, -0.0611002423967988}, {55, 18, 1.73398030309939},
    {103, 21, -0.501331430408664}, {109, 26, -0.694193033058386},
     },
     alibi_rms_parameters, sizeof alibi_rms_parameters / sizeof alibi_rms_parameters[0]},
    {"rope_linear", rope_linear_settings, sizeof rope_linear_settings / sizeof rope_linear_settings[0],
     "linear", 611.875885457044,
     {
    {0, 3, 2.15335366609175}, {1, 10, -1.02002595023596}, {17, 11, -1.06881799411648},
    {39, 17, -2.46196152056352}, {40, 24, 0.661387778952143}, {55, 18, -1.93138318771879},
    {103, 21, 0.183804008984575}, {109, 26, 2.14190532756698},
     },
     rope_linear_parameters, sizeof rope_linear_parameters / sizeof rope_linear_parameters[0]},
    {"rope_ntk", rope_ntk_settings, sizeof rope_ntk_settings / sizeof rope_ntk_settings[0],
     "ntk", 596.519974575027,
     {
    {0, 3, 2.15335366609175}, {1, 10, -0.856640241010223}, {17, 11, 1.57743375761337},
    {39, 17, -1.04273568614777}, {40, 24, 0.661387778952143}, {55, 18, 0.411788983117316},
    {103, 21, -1.15096196371923}, {109, 26, 2.32789493468651},
     },
     rope_ntk_parameters, sizeof rope_ntk_parameters / sizeof rope_ntk_parameters[0]},
    {"rope_yarn", rope_yarn_settings, sizeof rope_yarn_settings / sizeof rope_yarn_settings[0],
     "yarn", 575.891637977073,
     {
    {0, 3, 2.09261323536138}, {1, 10, -1.66545569642035}, {17, 11, -0.0351231521396101},
    {39, 17, 1.39730444155709}, {40, 24, 4.53499977472169}, {55, 18, -0.492187995430295},
    {103, 21, -0.0403950870485043}, {109, 26, -0.00500864684147939},
     },
     rope_yarn_parameters, sizeof rope_yarn_parameters / sizeof rope_yarn_parameters[0]},
};

#endif
